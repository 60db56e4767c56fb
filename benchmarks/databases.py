"""Large databases for the benchmarks of search: vectors, codes, and threads."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np
import torch
from torch import Tensor

from benchmarks.report import say
from benchmarks.vectors import Setting
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.index.faiss_forms import product_form

DIM = 192
CLUSTERS = {"5,000 clusters": 5_000, "90,000 clusters": 90_000}
NOISE = 0.4
QUERIES = 128
CHUNK = 100_000

MILLION = 1_000_000


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Ours and FAISS's work on so many threads."""
    torch.set_num_threads(count)
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(1)
        faiss.omp_set_num_threads(1)


def rows_of(setting: Setting, count: int) -> int:
    """How many items to take where ``count`` are asked for."""
    return min(count, 20_000) if setting.quick else count


def realistic(rows: int, seed: int, clusters: int = 5_000) -> Tensor:
    """Made-up embeddings (rows, 192): clusters, with variance that falls off.

    Centres and spectrum do not depend on the seed. A direction i has a share of the
    variance that falls as 1 / i, of the centres and of what is around them.

    Neither number of clusters is real data. With 5,000 a million vectors are easy: a
    query's 100 nearest are mostly of its cluster of 200. With 90,000 there are 11 to a
    cluster, and lists help little. The noise was set on 55,000 vectors of 5,000
    clusters, which need 5.9 % of 512 lists for recall .95 at k = 10 where AlexNet's
    embeddings of CIFAR-10 need 5.3 %; that says nothing about a million.
    """
    fixed = torch.Generator().manual_seed(0)
    spectrum = torch.arange(1, DIM + 1).rsqrt()
    turn = torch.linalg.qr(torch.randn(DIM, DIM, generator=fixed)).Q
    centres = torch.randn(clusters, DIM, generator=fixed) * spectrum
    generator = torch.Generator().manual_seed(seed + 1)
    x = torch.empty(rows, DIM)
    for part in x.split(CHUNK):
        chosen = torch.randint(clusters, (len(part),), generator=generator)
        noise = torch.randn(len(part), DIM, generator=generator) * spectrum
        part.copy_((centres[chosen] + NOISE * noise) @ turn)
    return x


@functools.lru_cache(maxsize=1)
def database(setting: Setting, clusters: int = 5_000) -> Tensor:
    """A million vectors, or 20,000 in a quick run."""
    say("making a database …")
    return realistic(rows_of(setting, MILLION), 1, clusters)


@functools.cache
def queries(clusters: int = 5_000) -> Tensor:
    """Queries like the database's vectors, not among them."""
    return realistic(QUERIES, 2, clusters)


@functools.cache
def fitted(num_codebooks: int, codebook_size: int) -> ProductQuantizer:
    """A product quantizer fitted to vectors like the database's."""
    say(f"fitting PQ {num_codebooks} x {codebook_size} …")
    quantizer = ProductQuantizer(DIM, num_codebooks, codebook_size)
    quantizer.fit(realistic(30_000, seed=3))
    return quantizer


def many_codes(quantizer: ProductQuantizer, rows: int) -> Tensor:
    """Codes (rows, M) whose integers are as frequent as those of real vectors.

    Each integer is drawn from its own row, so that codes hardly repeat.
    """
    base = quantizer.encode(realistic(20_000, seed=4))
    generator = torch.Generator().manual_seed(5)
    columns = [
        column[torch.randint(len(base), (rows,), generator=generator)]
        for column in base.T
    ]
    return torch.stack(columns, dim=1)


def faiss_pq(quantizer: ProductQuantizer, codes: Tensor) -> Any:
    """FAISS's IndexPQ with the same codebooks and codes."""
    form = product_form(quantizer)
    if form is None:
        raise TypeError(type(quantizer).__name__)
    index = form.faiss_index()
    index.add_sa_codes(np.ascontiguousarray(codes.numpy()))
    return index
