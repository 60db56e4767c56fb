"""Indexes and encoders for other programs: FAISS, Lance and ONNX."""

from gradsnap.export.faiss import faiss_names, from_faiss, to_faiss, write_faiss
from gradsnap.export.lance import search_lance, write_lance
from gradsnap.export.onnx import write_onnx

__all__ = [
    "faiss_names",
    "from_faiss",
    "search_lance",
    "to_faiss",
    "write_faiss",
    "write_lance",
    "write_onnx",
]
