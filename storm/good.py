"""Folders as they should be, of every index kind and coder, to be made bad."""

import copy
import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.coders import CODERS, Coder
from gradsnap.coders.quantizers import product
from gradsnap.index import INDEXES, HalfPrecision, Index, LongerCode

DIM = 8
ITEMS = 24

product.FITS = 1  # a codebook need not be the best of several here


def rows(count: int, seed: int = 0, dim: int = DIM) -> Tensor:
    """Vectors (count, dim) around a dozen places."""
    places = 2 * torch.randn(12, dim, generator=torch.Generator().manual_seed(1000))
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(12, (count,), generator=generator)
    return places[chosen] + 0.5 * torch.randn(count, dim, generator=generator)


@functools.cache
def coder(kind: str, num_codebooks: int = 3, codebook_size: int = 16) -> Coder:
    """A fitted coder, made once."""
    torch.manual_seed(0)
    if kind == "itq":
        return CODERS[kind].of_bits(DIM, DIM).fit(rows(200))
    made: Any = CODERS[kind]
    fitted: Coder = made(DIM, num_codebooks, codebook_size).fit(rows(200))
    return fitted


def empty(
    kind: str, own: Coder, *, residual: bool = False, refiner: Any = None
) -> Index:
    """An index without items, its lists learned; every list is looked into."""
    options = {"residual": True} if residual else {}
    index = INDEXES[kind].of_size(own, 36, refiner=refiner, **options)
    if index.learns:
        index.fit(rows(200))
    if index.num_lists is not None:
        index.probes = index.num_lists  # type: ignore[attr-defined]
    return index


def _hamming() -> Index:
    return gs.HammingIndex(12, weights=torch.arange(12).float())


VARIANTS: dict[str, Callable[[], Index]] = {
    "exhaustive": lambda: empty("exhaustive", coder("pq")),
    "exhaustive half": lambda: empty(
        "exhaustive", coder("opq", 2, 8), refiner=HalfPrecision(DIM)
    ),
    "exhaustive additive": lambda: empty("exhaustive", coder("rvq", 2, 16)),
    "exhaustive bytes": lambda: empty("exhaustive", coder("pq", 2, 256)),
    "exhaustive hash": lambda: empty("exhaustive", coder("itq")),
    "inverted": lambda: empty("inverted", coder("pq")),
    "inverted residual": lambda: empty(
        "inverted", coder("pq", 2, 8), residual=True, refiner=HalfPrecision(DIM)
    ),
    "multi": lambda: empty(
        "multi", coder("pq", 2, 16), refiner=LongerCode(coder("pq", 4, 16))
    ),
    "local": lambda: empty("local", coder("pq")),
    "hamming": _hamming,
}
"""Every index kind, over coders that take different ways through the scan."""


@functools.cache
def _made(variant: str) -> Index:
    return VARIANTS[variant]()


def fresh(variant: str) -> Index:
    """An empty index of a variant; what it learned is learned once."""
    return copy.deepcopy(_made(variant))


def learn_all() -> None:
    """Fits the coders and lists of every variant, before processes are forked."""
    for variant in VARIANTS:
        _made(variant)


class Good(NamedTuple):
    """A saved index and what it answers."""

    variant: str
    folder: Path
    named: bool
    answers: Any


def vectors_for(index: Index, count: int, seed: int) -> Tensor:
    """What such an index takes: vectors, or ready hashes."""
    if index.takes_vectors:
        return rows(count, seed)
    generator = torch.Generator().manual_seed(seed)
    hashes = torch.randint(256, (count, 2), generator=generator, dtype=torch.uint8)
    return hashes & torch.tensor([255, 15], dtype=torch.uint8)


def saved(variant: str, folder: Path, *, named: bool = True) -> Good:
    """An index of two saves with metadata and a removed item."""
    index = fresh(variant)
    x = vectors_for(index, ITEMS, 1)
    names = [f"{number}.jpg" for number in range(ITEMS)]
    for part in (slice(0, 16), slice(16, ITEMS)):
        ids = names[part] if named else list(range(ITEMS))[part]
        label = {"label": [number % 3 for number in range(ITEMS)][part]}
        index.add(x[part], ids=ids, metadata=label)
        if part.start:
            index.remove(["3.jpg"] if named else [3])
        index.save(folder)
    return Good(variant, folder, named, answers(gs.load_index(folder), named))


def answers(index: Index, named: bool) -> Any:
    """All that reads the files of such an index."""
    one: Any = "1.jpg" if named else 1
    two: Any = "2.jpg" if named else 2
    query = vectors_for(index, 2, 7)
    rerank = 8 if index.refiner is not None else None
    found = [index.search(query, 5, rerank=rerank), index.search_items([one], 3)]
    said = [[_plain(each.ids), each.distances.tolist()] for each in found]
    said += [index.metadata([two]), list(index.select("label = 1"))]
    index.compact()
    said.append([len(index), _plain(index.search(query, 30).ids)])
    return said


def _plain(ids: Any) -> Any:
    return ids.tolist() if isinstance(ids, Tensor) else ids


def indexes(place: Path) -> list[Good]:
    """One of every variant, with names and with numbers for ids in turn."""
    return [
        saved(variant, place / f"{number}.index", named=bool(number % 3))
        for number, variant in enumerate(VARIANTS)
    ]


def seeded(numbers: random.Random) -> torch.Generator:
    """Torch's numbers that follow from Python's."""
    return torch.Generator().manual_seed(numbers.randrange(2**40))
