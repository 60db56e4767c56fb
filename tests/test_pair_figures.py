"""Figures of pairs beside loops written from their definitions."""

import itertools

import pytest
import torch

import gradsnap as gs
from gradsnap.errors import InputError
from gradsnap.evaluation import (
    EmbeddingDistances,
    pair_auc,
    pair_average_precision,
    pair_distances,
    partner_figures,
)
from tests.conftest import gaussian


def some(count: int = 40, levels: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Distances with many ties, and whether pairs are alike."""
    generator = torch.Generator().manual_seed(0)
    apart = torch.randint(levels, (count,), generator=generator).float()
    alike = torch.rand(count, generator=generator) < 0.3 + 0.4 * (apart < levels / 2)
    return apart, alike


def test_auc_is_the_share_of_pairs_in_order() -> None:
    apart, alike = some()
    wins = [
        1.0 if near < far else 0.5 if near == far else 0.0
        for near, far in itertools.product(apart[alike], apart[~alike])
    ]
    assert pair_auc(apart, alike) == pytest.approx(sum(wins) / len(wins))


def test_average_precision_is_the_mean_over_orders_of_ties() -> None:
    apart, alike = torch.tensor([1.0, 1, 2, 2, 2, 3]), torch.tensor([1, 0, 0, 1, 0, 1])
    found = []
    for order in itertools.permutations(range(6)):
        ranked = sorted(order, key=lambda at: float(apart[at]))
        hits = [rank for rank, at in enumerate(ranked, 1) if alike[at]]
        found.append(sum(n / rank for n, rank in enumerate(hits, 1)) / len(hits))
    expected = sum(found) / len(found)
    assert pair_average_precision(apart, alike > 0) == pytest.approx(expected)


def test_one_kind_of_pairs_is_refused() -> None:
    for measure in (pair_auc, pair_average_precision):
        with pytest.raises(InputError, match="got 3 alike of 3"):
            measure(torch.ones(3), torch.ones(3) > 0)


def test_distances_of_pairs_in_any_order(monkeypatch) -> None:
    monkeypatch.setattr("gradsnap.evaluation.distances.BLOCK_ENTRIES", 50)
    x, y = gaussian(23, 4), gaussian(17, 4, 1)
    generator = torch.Generator().manual_seed(0)
    pairs = torch.stack(
        [torch.randint(n, (60,), generator=generator) for n in (23, 17)], dim=1
    )
    found = pair_distances(EmbeddingDistances(x, y), pairs)
    expected = (x[pairs[:, 0]] - y[pairs[:, 1]]).square().sum(dim=1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_partners_are_ranked_among_all_others() -> None:
    items = gaussian(20, 3)
    partners = {0: [4, 7], 5: [1], 9: [19]}
    queries = torch.tensor(list(partners))
    pairs = [(row, item) for row, q in enumerate(partners) for item in partners[q]]
    found = partner_figures(
        EmbeddingDistances(items[queries], items), queries, torch.tensor(pairs), (1, 5)
    )
    precisions, recalls = [], []
    for query, wanted in partners.items():
        apart = (items - items[query]).square().sum(dim=1)
        ranked = [item for item in apart.argsort().tolist() if item != query]
        ranks = sorted(ranked.index(item) + 1 for item in wanted)
        values = [n / rank for n, rank in enumerate(ranks, 1)]
        precisions.append(sum(values) / len(values))
        recalls.append([sum(rank <= n for rank in ranks) / len(ranks) for n in (1, 5)])
    assert found["map"] == pytest.approx(sum(precisions) / 3)
    for at, name in enumerate(("recall_at_1", "recall_at_5")):
        assert found[name] == pytest.approx(sum(one[at] for one in recalls) / 3)


def test_a_single_partner_gives_the_reciprocal_rank() -> None:
    items = torch.tensor([[0.0], [1], [2], [3]])
    own, pairs = torch.tensor([0]), torch.tensor([[0, 2]])
    found = partner_figures(EmbeddingDistances(items[:1], items), own, pairs, (1, 2))
    assert found == pytest.approx({"map": 1 / 2, "recall_at_1": 0, "recall_at_2": 1})


def test_public_names() -> None:
    assert gs.evaluation.pair_auc is pair_auc
