"""Metrics: rankings with known answers, and scikit-learn where definitions meet."""

import pytest
import torch
from sklearn.metrics import average_precision_score

import gradsnap as gs


def test_known_rankings() -> None:
    relevant = torch.tensor(
        [[True, True, False], [False, True, False], [False, False, False]]
    )
    totals = torch.tensor([2, 1, 4])
    value = gs.mean_average_precision(relevant, totals)
    assert float(value) == pytest.approx((1 + 0.5 + 0) / 3)


def test_divisor_is_what_could_be_found() -> None:
    ranked = torch.tensor([[True, True]])
    assert gs.mean_average_precision(ranked, torch.tensor([10])) == 1.0


def test_equals_scikit_learn_over_the_whole_database() -> None:
    generator = torch.Generator().manual_seed(0)
    relevant = torch.rand(8, 50, generator=generator) < 0.2
    scores = torch.arange(50, 0, -1).numpy()
    expected = [average_precision_score(row.numpy(), scores) for row in relevant]
    value = gs.mean_average_precision(relevant, relevant.sum(dim=1))
    assert float(value) == pytest.approx(sum(expected) / 8)


@pytest.mark.parametrize("length", [0, 1, 7, 40])
def test_equals_precision_added_up_rank_by_rank(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    relevant = torch.rand(6, length, generator=generator) < 0.3
    totals = relevant.sum(dim=1) + torch.arange(6)
    wanted = 0.0
    for row, total in zip(relevant.tolist(), totals.tolist(), strict=True):
        sums = sum(sum(row[: i + 1]) / (i + 1) for i, hit in enumerate(row) if hit)
        wanted += sums / max(1, min(total, length)) / 6
    value = gs.mean_average_precision(relevant, totals)
    assert (value.dtype, value.shape) == (torch.float64, ())
    assert float(value) == pytest.approx(wanted, abs=1e-12)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(gs.InputError, match=r"\(3,\) and \(1,\)"):
        gs.mean_average_precision(torch.ones(3, dtype=torch.bool), torch.ones(1))
