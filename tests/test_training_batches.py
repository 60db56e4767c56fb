"""Batches that depend on the seed alone, and schedules on the step alone."""

import itertools

import pytest
import torch

from gradsnap.errors import InputError
from gradsnap.training.batches import (
    Anchored,
    Balanced,
    DrawnTriplets,
    ListedTriplets,
    Part,
    Partners,
    Shuffled,
)
from gradsnap.training.config import LayerSettings, OptimizerSettings
from gradsnap.training.loop import LayerSchedule, RateSchedule
from gradsnap.training.processes import share
from gradsnap.triplets import SAMPLERS

INDICES = torch.arange(100, 160)
LABELS = torch.arange(60) % 6


def every_kind():
    yield Shuffled(INDICES, 16, seed=3)
    yield Balanced(INDICES, LABELS, 16, 4, seed=3)
    for name in SAMPLERS:
        yield DrawnTriplets(INDICES, LABELS, 18, 3, name, {})
    pairs = torch.stack([INDICES, INDICES.roll(7)], dim=1)
    yield Anchored(INDICES, (Partners.of(pairs, 160),), 16, seed=3)
    yield ListedTriplets(INDICES.view(-1, 3), 18, seed=3)


@pytest.mark.parametrize(
    "batches", list(every_kind()), ids=lambda one: type(one).__name__
)
def test_two_passes_are_equal_and_skipping_changes_nothing(batches) -> None:
    first = list(itertools.islice(batches, 12))
    for one, other in zip(first, itertools.islice(batches, 12), strict=True):
        assert torch.equal(one.indices, other.indices)
    later = list(Part(batches, 5, 12))
    assert later == [one.indices.tolist() for one in first[5:]]


@pytest.mark.parametrize(
    "batches", list(every_kind()), ids=lambda one: type(one).__name__
)
def test_the_parts_of_processes_make_up_the_batch(batches) -> None:
    whole = list(Part(batches, 0, 6))
    parts = [list(Part(batches, 0, 6, rank, 3)) for rank in range(3)]
    for step, batch in enumerate(whole):
        assert [row for part in parts for row in part[step]] == batch


def test_shuffled_sees_each_item_once_a_pass() -> None:
    batches = itertools.islice(Shuffled(INDICES, 20, seed=0), 3)
    seen = torch.cat([one.indices for one in batches]).sort().values
    assert torch.equal(seen, INDICES)


def test_balanced_has_equally_many_of_each_class() -> None:
    for one in itertools.islice(Balanced(INDICES, LABELS, 12, 4, seed=0), 10):
        classes, counts = LABELS[one.indices - 100].unique(return_counts=True)
        assert len(classes) == 3
        assert (counts == 4).all()


def test_balanced_fills_up_small_classes() -> None:
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    drawn = next(iter(Balanced(torch.arange(6), labels, 6, 3, seed=0)))
    assert len(drawn.indices) == 6


def test_drawn_triplets_name_rows_of_the_batch() -> None:
    for one in itertools.islice(
        DrawnTriplets(INDICES, LABELS, 30, 0, "importance", {"capacity": 4}), 5
    ):
        assert one.triplets is not None
        anchor, positive, negative = (one.indices[t] - 100 for t in one.triplets)
        assert (LABELS[anchor] == LABELS[positive]).all()
        assert (LABELS[anchor] != LABELS[negative]).all()


def test_refusals() -> None:
    with pytest.raises(InputError, match=r"batch_size 61 is larger .* 60 items"):
        Shuffled(INDICES, 61, seed=0)
    with pytest.raises(InputError, match=r"batch of 16 with 5 items .* 2 to 6"):
        Balanced(INDICES, LABELS, 16, 5, seed=0)
    with pytest.raises(InputError, match=r"has no option capactiy"):
        next(iter(DrawnTriplets(INDICES, LABELS, 9, 0, "importance", {"capactiy": 3})))


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_shares_cover_all_rows(world: int) -> None:
    rows = list(range(11))
    found = [row for rank in range(world) for row in rows[share(11, rank, world)]]
    assert found == rows


def test_step_schedule() -> None:
    settings = OptimizerSettings(schedule="step", milestones=(0.5, 0.75))
    schedule = RateSchedule(settings, 100)
    found = [schedule(step) for step in (0, 49, 50, 75)]
    assert found == pytest.approx([1, 1, 0.1, 0.01])


class Layer(torch.nn.Module):
    strength = 0.3
    neighbors = 100


def test_a_layer_is_left_alone_without_a_ramp() -> None:
    schedule = LayerSchedule(LayerSettings(options={"strength": 0.3}, warmup=0.1), 100)
    assert schedule.fit_step == 10
    layer = Layer()
    schedule.set(layer, 50)
    assert vars(layer) == vars(Layer())


def test_options_ramp_and_stay_whole_where_they_are() -> None:
    settings = LayerSettings(
        options={"neighbors": 100, "strength": 0.3},
        first={"neighbors": 10, "strength": 0.7},
        warmup=0.0,
        ramp=0.5,
    )
    schedule, layer = LayerSchedule(settings, 100), Layer()
    seen = []
    for step in (0, 25, 50, 90):
        schedule.set(layer, step)
        seen.append((layer.neighbors, round(layer.strength, 3)))
    assert seen == [(10, 0.7), (55, 0.5), (100, 0.3), (100, 0.3)]
