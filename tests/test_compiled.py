"""Whether compiled kernels or their twins in torch serve."""

import sys

import pytest
import torch

from gradsnap import ExhaustiveIndex, ProductQuantizer
from gradsnap.compiled import kernels, sparing_numba

KERNELS = "gradsnap.index.scanning_compiled"


@pytest.fixture
def not_imported_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.delitem(sys.modules, "numba")


@pytest.mark.usefixtures("not_imported_yet")
def test_a_program_that_does_little_spares_numba() -> None:
    with sparing_numba(True):
        assert kernels(KERNELS) is None
        with sparing_numba(False):  # who is inside of another changes nothing for it
            assert kernels(KERNELS) is None
    with sparing_numba(False):
        assert kernels(KERNELS) is not None


def test_what_is_imported_already_serves() -> None:
    pytest.importorskip("numba")
    with sparing_numba(True):
        assert kernels(KERNELS) is not None


def test_the_end_of_a_failed_search_is_noticed(not_imported_yet: None) -> None:
    with pytest.raises(ZeroDivisionError), sparing_numba(True):
        _ = 1 // 0
    assert kernels(KERNELS) is not None


def test_answers_do_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    rows = torch.randn(600, 8, generator=torch.Generator().manual_seed(0))
    quantizer = ProductQuantizer(8, 2, 16)
    quantizer.fit(rows)
    index = ExhaustiveIndex(quantizer)
    index.add(rows)
    expected = index.search(rows[:5], 20)
    monkeypatch.delitem(sys.modules, "numba")
    with sparing_numba(True):
        found = index.search(rows[:5], 20)
    assert torch.equal(found.distances, expected.distances)
    assert torch.equal(torch.as_tensor(found.ids), torch.as_tensor(expected.ids))
