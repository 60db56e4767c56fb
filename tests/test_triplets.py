"""Triplets: selectors and samplers against loops, and the laws of what they draw."""

import itertools
import math

import pytest
import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.losses import TripletLoss
from gradsnap.triplets import (
    SAMPLERS,
    SELECTORS,
    TRIPLETS,
    BatchAll,
    BatchHard,
    FeatureRelevance,
    ImportanceSampler,
    LabelRelevance,
    Sampler,
    Selector,
    SemiHard,
    Triplets,
    UniformSampler,
)
from gradsnap.triplets.classes import Reservoirs
from tests.conftest import gaussian

ROWS, DIM = 14, 4


def several(rows: int = ROWS, labels: int = 4, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, labels, generator=generator) < 0.35


LABELS = {"one": torch.arange(ROWS) % 3, "several": several()}


def share(labels: Tensor, i: int, j: int) -> bool:
    both = labels[i] == labels[j] if labels.ndim == 1 else labels[i] & labels[j]
    return bool(both.any())


def apart(y: Tensor, i: int, j: int) -> float:
    return float((y[i] - y[j]).norm())


def listed(triplets: Triplets) -> list[tuple[int, int, int]]:
    return sorted(zip(*(part.tolist() for part in triplets), strict=True))


def every_triplet(labels: Tensor) -> list[tuple[int, int, int]]:
    return [
        (a, p, n)
        for a, p, n in itertools.permutations(range(len(labels)), 3)
        if share(labels, a, p) and not share(labels, a, n)
    ]


@pytest.fixture(params=LABELS.values(), ids=list(LABELS))
def labels(request: pytest.FixtureRequest):
    return request.param


@pytest.fixture(params=list(SELECTORS))
def selector(request: pytest.FixtureRequest) -> Selector:
    return SELECTORS[request.param]()


@pytest.fixture(params=list(SAMPLERS))
def make_sampler(request: pytest.FixtureRequest):
    def maker(labels: Tensor, seed: int = 0) -> Sampler:
        generator = torch.Generator().manual_seed(seed)
        return SAMPLERS[request.param](labels, generator=generator)

    return maker


def test_registries() -> None:
    assert list(SELECTORS) == ["batch-all", "batch-hard", "semi-hard"]
    assert list(SAMPLERS) == ["uniform", "importance"]
    assert TRIPLETS.keys() == SELECTORS.keys() | SAMPLERS.keys()


# --- every selector -----------------------------------------------------------------


def test_selected_rows_are_triplets(selector: Selector, labels: Tensor) -> None:
    selected = selector.select(gaussian(ROWS, DIM), labels)
    assert len(selected.anchor) > 0
    assert all(part.dtype == torch.int64 for part in selected)
    assert set(listed(selected)) <= set(every_triplet(labels))
    assert len(set(listed(selected))) == len(listed(selected))


def test_nothing_to_select_gives_no_triplets(selector: Selector) -> None:
    y = gaussian(ROWS, DIM)
    none = torch.zeros(ROWS, 2, dtype=torch.bool)
    for labels in (torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS), none):
        selected = selector.select(y, labels)
        assert [tuple(part.shape) for part in selected] == [(0,)] * 3
        assert TripletLoss()(y, labels, selected) == 0
    assert listed(selector.select(y[:0], none[:0])) == []


def test_selected_triplets_train(selector: Selector, labels: Tensor) -> None:
    y = gaussian(ROWS, DIM).requires_grad_()
    selected = selector.select(y, labels)
    TripletLoss()(y, labels, selected).backward()
    assert y.grad is not None
    assert y.grad.abs().sum() > 0


def test_selectors_refuse_labels_that_do_not_fit(selector: Selector) -> None:
    with pytest.raises(gs.InputError, match=r"each of 14 embeddings, .*\(3,\)"):
        selector.select(gaussian(ROWS, DIM), torch.arange(3))


# --- each selector ------------------------------------------------------------------


def test_batch_all_lists_every_triplet(labels: Tensor) -> None:
    y = gaussian(ROWS, DIM)
    selected = BatchAll().select(y, labels)
    assert listed(selected) == every_triplet(labels)
    torch.testing.assert_close(
        TripletLoss(0.5)(y, labels, selected), TripletLoss(0.5)(y, labels)
    )


def test_batch_hard_equals_the_loop(labels: Tensor) -> None:
    y = gaussian(ROWS, DIM)
    expected = []
    for a in range(ROWS):
        positives = [p for p in range(ROWS) if p != a and share(labels, a, p)]
        negatives = [n for n in range(ROWS) if n != a and not share(labels, a, n)]
        if positives and negatives:
            hardest = max(positives, key=lambda p: apart(y, a, p))
            nearest = min(negatives, key=lambda n: apart(y, a, n))
            expected.append((a, hardest, nearest))
    assert listed(BatchHard().select(y, labels)) == expected


@pytest.mark.parametrize("margin", [0.1, 1.0, 100.0])
def test_semi_hard_equals_the_loop(labels: Tensor, margin: float) -> None:
    y = gaussian(ROWS, DIM)
    expected = []
    for a, p in itertools.permutations(range(ROWS), 2):
        near = apart(y, a, p)
        beyond = [
            n
            for n in range(ROWS)
            if n != a
            and not share(labels, a, n)
            and near < apart(y, a, n) < near + margin
        ]
        if share(labels, a, p) and beyond:
            expected.append((a, p, min(beyond, key=lambda n: apart(y, a, n))))
    assert listed(SemiHard(margin).select(y, labels)) == expected


def test_semi_hard_refuses_a_margin_of_nothing() -> None:
    with pytest.raises(gs.InputError, match="positive and finite, got 0"):
        SemiHard(0)


# --- every sampler ------------------------------------------------------------------


def test_drawn_rows_are_triplets(make_sampler, labels: Tensor) -> None:
    drawn = make_sampler(labels).draw(200)
    assert [part.shape for part in drawn] == [(200,)] * 3
    possible = set(every_triplet(labels))
    graded = labels.ndim == 2  # then a negative may share fewer labels than a positive
    for a, p, n in listed(drawn):
        if not share(labels, a, n):
            assert (a, p, n) in possible
        else:
            assert graded
            assert (labels[a] & labels[n]).sum() < (labels[a] & labels[p]).sum()


def test_every_row_that_can_be_an_anchor_is_drawn(make_sampler) -> None:
    drawn = make_sampler(LABELS["one"]).draw(2000)
    for part in drawn:
        assert part.unique().tolist() == list(range(ROWS))


def test_seed_repeats_the_draws(make_sampler, labels: Tensor) -> None:
    first, again, other = (make_sampler(labels, seed).draw(50) for seed in (1, 1, 2))
    assert listed(first) == listed(again) != listed(other)


def test_global_random_state_is_untouched(make_sampler, labels: Tensor) -> None:
    before = torch.get_rng_state()
    make_sampler(labels).draw(50)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("draws", [0, 3])
def test_resumed_sampler_draws_the_same(make_sampler, labels, draws: int) -> None:
    sampler, fresh = make_sampler(labels), make_sampler(labels, seed=9)
    for _ in range(draws):
        sampler.draw(7)
    state = {name: value.clone() for name, value in sampler.state_dict().items()}
    expected = [sampler.draw(7) for _ in range(6)]
    fresh.draw(5)
    fresh.load_state_dict(state)
    for part in expected:
        for ours, theirs in zip(fresh.draw(7), part, strict=True):
            assert torch.equal(ours, theirs)


def test_nothing_and_less_than_nothing(make_sampler, labels: Tensor) -> None:
    assert listed(make_sampler(labels).draw(0)) == []
    with pytest.raises(gs.InputError, match="got -1"):
        make_sampler(labels).draw(-1)


def test_single_rows_of_a_class_are_only_negatives(make_sampler) -> None:
    labels = torch.tensor([0, 0, 0, 5, 7])
    anchor, positive, negative = make_sampler(labels).draw(300)
    assert anchor.max() < 3
    assert positive.max() < 3
    assert negative.unique().tolist() == [3, 4]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.arange(5), "no class of the 5 rows has two members"),
        (torch.zeros(5).long(), "all 5 rows share a label, so there is no negative"),
        (torch.ones(5, 2).bool(), "all 5 rows share a label"),
        (torch.zeros(5, 2).bool(), "no class of the 5 rows"),
        (torch.zeros(5), "must be an integer, got torch.float32"),
    ],
)
def test_labels_without_triplets_are_refused(make_sampler, labels, message) -> None:
    with pytest.raises(gs.InputError, match=message):
        make_sampler(labels)


def test_negatives_are_found_where_nearly_all_share_a_label(make_sampler) -> None:
    labels = torch.zeros(400, 3, dtype=torch.bool)
    labels[:398, 0] = True
    labels[:2, 1] = True
    labels[398:, 2] = True
    anchor, _, negative = make_sampler(labels).draw(40)
    assert (negative >= 398).logical_xor(anchor >= 398).all()


def test_compact_triplets_name_the_same_rows(make_sampler, labels: Tensor) -> None:
    drawn = make_sampler(labels).draw(10)
    rows, triplets = drawn.compact()
    assert len(rows) == len(rows.unique()) == len(torch.stack(drawn).unique())
    for place, row in zip(triplets, drawn, strict=True):
        assert torch.equal(rows[place], row)


# --- each sampler -------------------------------------------------------------------


def test_uniform_draws_evenly() -> None:
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    drawn = UniformSampler(labels).draw(20_000)
    counts = {triplet: 0 for triplet in every_triplet(labels)}
    for triplet in listed(drawn):
        counts[triplet] += 1
    for (a, _, _), count in counts.items():
        share_of_anchor = 20_000 / 6 / (6 if a < 4 else 4)
        assert abs(count - share_of_anchor) < 5 * math.sqrt(share_of_anchor)


def test_reservoir_equals_one_at_a_time() -> None:
    """Wang et al.: the smallest key in a full buffer gives way to a larger one."""
    sizes, capacity = torch.tensor([40, 25]), 6
    generator = torch.Generator().manual_seed(0)
    keys = torch.rand(65, generator=generator, dtype=torch.float64)
    order = torch.randperm(65, generator=generator)
    buffers: list[dict[int, float]] = [{}, {}]
    reservoirs = Reservoirs(sizes, capacity)
    for few in order.split(5):
        for member in few.tolist():
            buffer, key = buffers[member >= 40], float(keys[member])
            if len(buffer) == capacity:
                smallest = min(buffer, key=lambda known: buffer[known])
                if key <= buffer[smallest]:
                    continue
                del buffer[smallest]
            buffer[member] = key
        reservoirs.offer((few >= 40).long(), few, keys[few].log())
        for slots, buffer in zip(reservoirs.slots, buffers, strict=True):
            assert set(slots[slots >= 0].tolist()) == buffer.keys()


def pairwise_loop(features: Tensor, i: int, j: int) -> float:
    a, b = features[i].double(), features[j].double()
    return float((1 + a @ b / (a.norm() * b.norm())) / 2)


def test_relevance_of_features_equals_the_loop() -> None:
    features = gaussian(9, DIM)
    relevance = FeatureRelevance(features)
    others = torch.tensor([[1, 2, 3], [0, 4, 8]])
    expected = [
        [pairwise_loop(features, 0, j) for j in (1, 2, 3)],
        [pairwise_loop(features, 5, j) for j in (0, 4, 8)],
    ]
    found = relevance.between(torch.tensor([0, 5]), others)
    torch.testing.assert_close(found, torch.tensor(expected))
    members = torch.tensor([2, 5, 6, 8])
    totals = [
        sum(pairwise_loop(features, i, j) for j in members.tolist() if j != i)
        for i in members.tolist()
    ]
    torch.testing.assert_close(relevance.total(members), torch.tensor(totals))


def test_relevance_of_labels_equals_the_loop(labels: Tensor) -> None:
    def shared(i: int, j: int) -> int:
        both = labels[i] == labels[j] if labels.ndim == 1 else labels[i] & labels[j]
        return int(both.sum())

    relevance = LabelRelevance(labels)
    rows, others = torch.tensor([0, 5]), torch.tensor([[1, 2, 3], [0, 4, 8]])
    expected = [[shared(0, j) for j in (1, 2, 3)], [shared(5, j) for j in (0, 4, 8)]]
    assert relevance.between(rows, others).tolist() == expected
    members = torch.arange(0, ROWS, 3)
    totals = [sum(shared(i, j) for j in members.tolist() if j != i) for i in members]
    assert relevance.total(members).tolist() == totals


def test_features_that_are_none_are_refused() -> None:
    for bad in (torch.zeros(3), torch.full((3, 2), torch.nan)):
        with pytest.raises(gs.InputError, match=r"finite features of shape \(n, dim\)"):
            FeatureRelevance(bad)


def graded() -> tuple[Tensor, Tensor]:
    """Two classes; in the first, rows lean away from a common direction by degrees."""
    angles = torch.linspace(0, 3, 30)
    arc = torch.stack([angles.cos(), angles.sin()], dim=1)
    return torch.cat([arc, arc]), torch.arange(60) // 30


def test_reservoir_of_one_holds_members_in_proportion_to_their_weights() -> None:
    weights = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)
    generator, held = torch.Generator().manual_seed(0), torch.zeros(4)
    for _ in range(3000):
        reservoir = Reservoirs(torch.tensor([4]), capacity=1)
        keys = torch.rand(4, generator=generator, dtype=torch.float64).log() / weights
        reservoir.offer(torch.zeros(4).long(), torch.arange(4), keys)
        held[reservoir.slots] += 1
    expected = 3000 * weights.float() / 12
    assert ((held - expected).abs() < 4 * expected.sqrt()).all()


def test_importance_draws_queries_in_proportion_to_total_relevance() -> None:
    """Of 30 rows 20 agree and 10 have r = 0.1 to them: R is 20 and 11."""
    rows = [[1.0, 0.0]] * 20 + [[-0.8, 0.6]] * 10
    features = torch.tensor(rows * 2)
    labels = torch.arange(60) // 30
    sampler = ImportanceSampler(labels, FeatureRelevance(features), capacity=3)
    fewer = (features[sampler.draw(6000).anchor, 0] < 0).float().mean()
    assert abs(fewer - 110 / (110 + 400)) < 0.06  # evenly it would be 1/3


def test_importance_accepts_positives_with_chance_r_over_total() -> None:
    features, labels = graded()
    relevance = FeatureRelevance(features)
    sampler = ImportanceSampler(labels, relevance, capacity=30)  # holds whole classes
    anchor, positive, _ = sampler.draw(8_000)
    counts = positive[anchor == 0].bincount(minlength=60)[1:30].float()
    totals = relevance.total(torch.arange(30))
    chances = [pairwise_loop(features, 0, j) / float(totals[j]) for j in range(1, 30)]
    expected = torch.tensor(chances) / sum(chances) * counts.sum()
    assert ((counts - expected).abs() < 4.5 * expected.sqrt() + 2).all()


def test_threshold_makes_all_relevant_enough_alike() -> None:
    features, labels = graded()
    relevance = FeatureRelevance(features)
    plain, cut = (
        ImportanceSampler(labels, relevance, capacity=30, threshold=threshold)
        for threshold in (math.inf, 1e-4)
    )
    far = [
        float(((p - a).abs()).float().mean())
        for a, p, _ in (plain.draw(2000), cut.draw(2000))
    ]
    assert far[0] < far[1]


@pytest.mark.parametrize("share_outside", [0.0, 0.3, 1.0])
def test_negatives_inside_the_class_keep_the_gap(share_outside: float) -> None:
    features, labels = graded()
    sampler = ImportanceSampler(
        labels, FeatureRelevance(features), 30, share_outside, gap=0.2
    )
    anchor, positive, negative = sampler.draw(1500)
    inside = labels[anchor] == labels[negative]
    for a, p, n in zip(anchor[inside], positive[inside], negative[inside], strict=True):
        better, worse = (pairwise_loop(features, int(a), int(x)) for x in (p, n))
        assert better - worse >= 0.2 - 1e-6
    if share_outside == 1:
        assert not inside.any()
    else:  # fewer, where the positive was too little relevant for the gap
        assert 0.5 * (1 - share_outside) < inside.float().mean() < 1 - share_outside


def test_buffers_are_bounded_and_change() -> None:
    labels = torch.arange(300) % 3
    sampler = ImportanceSampler(labels, capacity=5)
    first = torch.stack(sampler.draw(20)).unique()
    assert len(first) <= 3 * 5 + 20
    seen = torch.cat([torch.stack(sampler.draw(50)).flatten() for _ in range(60)])
    assert len(seen.unique()) > 100  # of 300, in ten passes through buffers of five


def test_no_relevance_at_all_is_an_error_not_a_hang() -> None:
    features = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).repeat(2, 1)
    labels = torch.tensor([0, 0, 1, 1])
    sampler = ImportanceSampler(labels, FeatureRelevance(features))
    with pytest.raises(gs.InputError, match="no triplet was found in 4"):
        sampler.draw(3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 1}, "capacity must be at least 2, got 1"),
        ({"out_of_class": 1.5}, "out_of_class must lie in 0..1, got 1.5"),
        ({"gap": 0.0}, "gap must be positive, got 0.0"),
        ({"threshold": -1.0}, "threshold must be positive, got -1.0"),
    ],
)
def test_options_out_of_range_are_refused(
    options: dict[str, float], message: str
) -> None:
    with pytest.raises(gs.InputError, match=message):
        ImportanceSampler(LABELS["one"], **options)  # type: ignore[arg-type]


def test_state_of_another_data_set_is_refused() -> None:
    state = ImportanceSampler(LABELS["one"]).state_dict()
    with pytest.raises(gs.InputError, match=r"state is of 14 members .* has 20"):
        ImportanceSampler(torch.arange(20) % 4).load_state_dict(state)
