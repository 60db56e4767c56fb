"""Locally optimized product quantization: cells, rotations, bits, and indexes."""

import pytest
import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.coders import CODERS
from gradsnap.coders.quantizers import LocallyOptimizedProductQuantizer
from gradsnap.index import ExhaustiveIndex
from tests.conftest import gaussian

DIM = 6


def turned_clusters(rows: int, seed: int = 0) -> Tensor:
    """Four far clusters, each a thin ellipsoid that lies its own way."""
    generator = torch.Generator().manual_seed(seed)
    ways = [torch.linalg.qr(gaussian(DIM, DIM, 50 + c))[0] for c in range(4)]
    axes = torch.tensor([4.0, 3.0, 0.3, 0.2, 0.1, 0.1])
    places = 30 * gaussian(4, DIM, 49)
    drawn = torch.randn(rows, DIM, generator=generator) * axes
    cluster = torch.arange(rows) % 4
    turned = torch.stack([drawn[i] @ ways[int(c)] for i, c in enumerate(cluster)])
    return turned + places[cluster]


def error(coder: LocallyOptimizedProductQuantizer, x: Tensor) -> float:
    away = x - coder._decode(coder.encode(x).long())
    return float(away.square().sum(dim=1).mean())


def made(**changes: int) -> LocallyOptimizedProductQuantizer:
    sizes = {"num_codebooks": 2, "words": 16, "cells": 4} | changes
    return LocallyOptimizedProductQuantizer(DIM, **sizes)


def test_a_code_names_the_nearest_cell_and_its_nearest_words() -> None:
    x, coder = turned_clusters(600), made()
    codes = coder.fit(x).encode(x[:50])
    cells = codes // 16
    assert torch.equal(cells[:, 0], cells[:, 1])
    nearest = torch.cdist(x[:50], coder.centroids).argmin(dim=1)
    assert torch.equal(cells[:, 0].long(), nearest)
    for row, code in zip(x[:50], codes.long(), strict=True):
        cell = int(code[0]) // 16
        left = (row - coder.centroids[cell]) @ coder.rotations[cell]
        for m, block in enumerate(left.tensor_split(2)):
            away = (coder.codebooks[cell, m] - block).square().sum(dim=1)
            assert int(code[m]) % 16 == int(away.argmin())


def test_rotations_are_orthogonal_and_each_cells_own() -> None:
    coder = made().fit(turned_clusters(600))
    for rotation in coder.rotations:
        torch.testing.assert_close(rotation @ rotation.T, torch.eye(DIM))
    assert len(coder.rotations.unique(dim=0)) == 4
    few = made().fit(turned_clusters(20))  # too few a cell: what all rows give
    assert len(few.rotations.unique(dim=0)) == 1
    assert len(few.codebooks.unique(dim=0)) == 1


def test_it_errs_less_than_pq_and_opq_of_as_many_bits() -> None:
    x, y = turned_clusters(2000), turned_clusters(400, seed=1)
    coder = made().fit(x)
    assert coder.bits == 10
    for kind in (gs.ProductQuantizer, gs.OptimizedProductQuantizer):
        rival = kind(DIM, 2, 32).fit(x)
        assert rival.bits == 10
        assert error(coder, y) < 0.8 * rival.error(y)


@pytest.mark.parametrize(
    ("bits", "sizes"),
    [(8, (2, 8, 4)), (16, (2, 128, 4)), (24, (3, 128, 8)), (32, (4, 128, 16))],
)
def test_bits_are_cell_and_words(bits: int, sizes: tuple[int, int, int]) -> None:
    coder = LocallyOptimizedProductQuantizer.of_bits(16, bits)
    assert (coder.num_codebooks, coder.words, coder.cells) == sizes
    assert coder.bits == bits


def test_what_is_refused() -> None:
    of_bits = LocallyOptimizedProductQuantizer.of_bits
    assert of_bits(16, 20, 16, cells=16).bits == 20
    refusals = [
        (lambda: of_bits(16, 32, 256), "32 bits cannot be made of a cell"),
        (lambda: of_bits(16, 32, 3), "power of two, 2 to 65536, got 3"),
        (lambda: of_bits(16, 32, cells=5), "power of two, 2 to 65536, got 5"),
        (lambda: made(cells=3), "at most 4096 for 16 words, got 3"),
        (lambda: made(num_codebooks=7), "at most dim = 6 .*, got 7"),
    ]
    for make, words in refusals:
        with pytest.raises(gs.InputError, match=words):
            make()


def test_an_index_finds_what_the_reconstructions_say() -> None:
    x, queries = turned_clusters(300), turned_clusters(9, seed=2)
    coder = CODERS["lopq"].of_bits(DIM, 16).fit(x)
    assert isinstance(coder, LocallyOptimizedProductQuantizer)
    found = ExhaustiveIndex(coder).add(x).search(queries, 300)
    said = coder._decode(coder.encode(x).long())
    exact = (queries[:, None] - said).square().sum(dim=2)
    torch.testing.assert_close(
        found.distances, exact.sort(dim=1).values, rtol=1e-3, atol=1e-2
    )
