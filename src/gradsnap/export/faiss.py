"""Indexes as plain FAISS files, and codebooks from FAISS indexes."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from gradsnap.coders.quantizers import (
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
)
from gradsnap.errors import FileFormatError, InputError
from gradsnap.export.faiss_parts import index_in_faiss
from gradsnap.files import replacing, write_text
from gradsnap.index import Index
from gradsnap.index.segments import Segment, merge

Array = NDArray[Any]

NAMES = ".names.json"
"""What is added to the name of a FAISS file for its table of names."""


def to_faiss(index: Index) -> Any:
    """The index as FAISS's own, with the same codebooks, codes, lists and ids.

    FAISS ids are whole numbers: where ours are strings, items are numbered from 0 in
    the order they were added, and ``faiss_names`` tells which is which.

    ===================== ======================= ==================================
    ours                  coder                   FAISS
    ===================== ======================= ==================================
    ``ExhaustiveIndex``   PQ, OPQ                 IndexPQ, after a linear transform
    ``ExhaustiveIndex``   RVQ, GRVQ, AQ, CQ       IndexResidualQuantizer with norms
    ``ExhaustiveIndex``   hashers, no weights     IndexBinaryFlat
    ``InvertedIndex``     PQ, OPQ                 IndexIVFPQ
    ``MultiIndex``        PQ                      IndexIVFPQ, MultiIndexQuantizer
    ``HammingIndex``      no weights              IndexBinaryFlat
    ===================== ======================= ==================================

    Raises:
        InputError: FAISS has no such index.
    """
    return index_in_faiss(index, _with_numbers(index)[0])


def faiss_names(index: Index) -> list[str] | None:
    """The string id of each number FAISS has for it; None where ids are numbers."""
    return _with_numbers(index)[1]


def write_faiss(index: Index, path: str | os.PathLike[str]) -> None:
    """Writes a FAISS file that any FAISS program opens; see ``to_faiss``.

    Hashes make a binary index, for ``faiss.read_index_binary``. String ids go to
    ``<path>.names.json``, a list: the string at place i is the id of FAISS's item i.
    """
    items, names = _with_numbers(index)
    made = index_in_faiss(index, items)
    binary = isinstance(made, faiss.IndexBinary)
    # FAISS's own writing of files says nothing where the last bytes find no room.
    bytes_of = faiss.serialize_index_binary if binary else faiss.serialize_index
    beside = Path(os.fspath(path) + NAMES)
    try:
        with replacing(path) as temporary:
            with temporary.open("wb") as file:
                file.write(bytes_of(made).data)
            if names is not None:  # before the file that needs them
                write_text(beside, json.dumps(names, indent=0))
    except OSError as error:
        raise InputError(f"cannot write {os.fspath(path)}: {error.strerror}") from error
    if names is None:
        beside.unlink(missing_ok=True)  # of another index that stood here


def _with_numbers(index: Index) -> tuple[Segment | None, list[str] | None]:
    """All items in one segment whose ids are numbers, and their names if any."""
    if not index.items.segments:
        return None, None
    items = merge(index.items.segments)
    if items.names is None:
        return items, None
    names = list(items.names)
    order = np.argsort(items.all_ids())  # as they were added
    numbers = np.argsort(order)  # of each place
    counted = np.array_equal(numbers, np.arange(len(items)))
    items = dataclasses.replace(items, ids=None if counted else numbers, first=0)
    return items, [names[place] for place in order.tolist()]


def from_faiss(source: Any) -> Quantizer:
    """A quantizer with the codebooks of a FAISS index.

    Args:
        source: a FAISS index, or the path of one: IndexPQ, IndexIVFPQ (whose codebooks
            may be of residuals), either after an OPQ matrix, or IndexResidualQuantizer;
            with an id map or without.

    Raises:
        InputError: the index holds no codebooks of ours.
        FileFormatError: the file cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        source = _read(os.fspath(source))
    rotation: Array | None = None
    index = _without_id_map(source)
    if isinstance(index, faiss.IndexPreTransform):
        rotation = _rotation(index)
        index = _without_id_map(index.index)
    if isinstance(index, faiss.IndexPQ | faiss.IndexIVFPQ | faiss.IndexPQFastScan):
        return _product(index.pq, rotation)
    if isinstance(index, faiss.IndexResidualQuantizer) and rotation is None:
        return _residual(index.rq)
    raise InputError(
        f"a FAISS {type(index).__name__} has no codebooks to import; known: IndexPQ, "
        "IndexIVFPQ, either in an IndexPreTransform, and IndexResidualQuantizer"
    )


def _read(path: str) -> Any:
    if not os.path.isfile(path):
        raise InputError(f"there is no file {path}")
    try:
        return faiss.read_index(path)
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        raise FileFormatError(f"{path} is not a FAISS index: {text}") from error


def _without_id_map(index: Any) -> Any:
    index = faiss.downcast_index(index)
    while isinstance(index, faiss.IndexIDMap | faiss.IndexIDMap2):
        index = faiss.downcast_index(index.index)
    return index


def _rotation(index: Any) -> Array:
    """The one rotation before the index: x becomes x @ rotation."""
    matrix: Any = faiss.downcast_VectorTransform(index.chain.at(0))
    single = index.chain.size() == 1 and isinstance(matrix, faiss.LinearTransform)
    if not single or matrix.d_in != matrix.d_out or matrix.b.size():
        raise InputError(
            "only one square linear transform before the index can be imported, got "
            f"{index.chain.size()}, the first a {type(matrix).__name__}"
        )
    values = faiss.vector_to_array(matrix.A).reshape(matrix.d_out, matrix.d_in).T
    if not np.allclose(values.T @ values, np.eye(len(values)), atol=1e-3):
        raise InputError("the transform before the index is not a rotation")
    return np.ascontiguousarray(values)


def _product(pq: Any, rotation: Array | None) -> Quantizer:
    words = faiss.vector_to_array(pq.centroids).reshape(pq.M, pq.ksub, pq.dsub)
    made: Quantizer
    if rotation is None:
        made = ProductQuantizer(pq.d, pq.M, pq.ksub)
    else:
        made = OptimizedProductQuantizer(pq.d, pq.M, pq.ksub)
        made.rotation.copy_(torch.from_numpy(rotation))
        made.inner.fitted.fill_(True)
    made.codebooks.copy_(torch.from_numpy(words))
    made.fitted.fill_(True)
    return made


def _residual(rq: Any) -> Quantizer:
    bits = set(faiss.vector_to_array(rq.nbits).tolist())
    if len(bits) != 1:
        raise InputError(f"codebooks must be of one size, got bits {sorted(bits)}")
    made = ResidualQuantizer(rq.d, rq.M, 2 ** bits.pop())
    words = faiss.vector_to_array(rq.codebooks).reshape(made.codebooks.shape)
    made.codebooks.copy_(torch.from_numpy(words))
    made.fitted.fill_(True)
    return made
