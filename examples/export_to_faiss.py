"""Learned codebooks and codes in a plain FAISS file, with the same results.

python examples/export_to_faiss.py
"""

import tempfile
from pathlib import Path

import faiss
import torch

import gradsnap as gs
from gradsnap.export import write_faiss


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    places = torch.randn(50, 32, generator=generator)
    near = torch.randint(50, (5000,), generator=generator)
    embeddings = places[near] + 0.3 * torch.randn(5000, 32, generator=generator)

    quantizer = gs.ProductQuantizer(dim=32, num_codebooks=4, codebook_size=256).fit(
        embeddings
    )
    index = gs.ExhaustiveIndex(quantizer).add(embeddings)
    queries = embeddings[:100] + 0.1
    ours, _ = index.search(queries, k=10)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photos.faiss"
        write_faiss(index, path)
        opened = faiss.read_index(str(path))  # needs nothing of gradsnap
    _, theirs = opened.search(queries.numpy(), 10)
    same = (ours.numpy() == theirs).mean()
    print(f"{type(opened).__name__} of {opened.ntotal} codes, {same:.1%} of ids alike")


if __name__ == "__main__":
    main()
