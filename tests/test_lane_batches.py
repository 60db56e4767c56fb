"""Batches of a source in shards: the same however many processes hold it."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gradsnap.data.shards.lanes import own_shards
from gradsnap.errors import InputError
from gradsnap.training.batches import Part
from gradsnap.training.lane_batches import (
    LaneBatches,
    PerClass,
    Proportional,
    endless,
    spread,
)
from gradsnap.training.processes import Processes
from gradsnap.training.supervision import supervision_of
from tests.shard_parts import ITEMS, KINDS, SHARDS, on_processes, opened
from tests.training_runs import config_for


def batches_of(source: Path, world: int, *overrides: str, steps: int = 12) -> Tensor:
    """Numbers in the source of the items of each batch, (steps, b)."""
    config = config_for(source, *overrides)

    def drawn(one: Processes) -> list[tuple[Tensor, slice | None]]:
        dataset = opened(source, one, lanes=config.data.lanes)
        supervision = supervision_of(dataset, config.data, one)
        made = supervision.batches(config, supervision.split(config.data).train)
        found = list(itertools.islice(made, steps))
        assert [list(rows) for rows in Part(made, 2, steps)] == [
            batch.indices.tolist() for batch in found[2:]
        ]
        return [(batch.indices + dataset.first, batch.mine) for batch in found]

    several = on_processes(world, drawn)
    whole = torch.full((steps, config.run.batch_size or 0), -1)
    for batches in several:
        for step, (items, mine) in enumerate(batches):
            assert (whole[step, mine] == -1).all()
            whole[step, mine] = items
    return whole


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "overrides", [(), ("run.items_per_class=3", "run.batch_size=6"), ("data.lanes=4",)]
)
def test_batches_do_not_depend_on_the_number_of_processes(
    tmp_path: Path, kind: str, overrides: tuple[str, ...]
) -> None:
    source = KINDS[kind](tmp_path)
    one, two, four = (batches_of(source, world, *overrides) for world in (1, 2, 4))
    assert (one >= 0).all()
    assert torch.equal(one, two)
    assert torch.equal(one, four)


def test_balanced_batches_hold_so_many_of_a_class(tmp_path: Path) -> None:
    source = KINDS["folders"](tmp_path)
    found = batches_of(source, 2, "run.items_per_class=4", "run.batch_size=8")
    for batch in found // ITEMS:  # the class of each: folders one after the other
        assert batch.unique(return_counts=True)[1].tolist() == [4, 4]


def test_every_item_of_a_lane_comes_once_a_pass(tmp_path: Path) -> None:
    source = KINDS["tar"](tmp_path)
    found = batches_of(source, 1, "run.batch_size=8", steps=400)
    config = config_for(source)
    [dataset] = on_processes(1, lambda one: opened(source, one))
    parts = supervision_of(dataset, config.data)
    train = parts.split(config.data).train
    assert torch.equal(found.unique(), train)
    counts = found.flatten().bincount(minlength=SHARDS * ITEMS)[train]
    assert counts.max() - counts.min() <= 2


def test_a_parquet_lane_reads_one_group_after_the_other(tmp_path: Path) -> None:
    source = KINDS["parquet"](tmp_path)
    found = batches_of(source, 1, "data.lanes=1", "run.batch_size=4", steps=20)
    groups = (found // ITEMS).flatten().tolist()
    changes = sum(a != b for a, b in itertools.pairwise(groups))
    assert changes <= 80 // 12


def test_rows_are_spread_in_proportion() -> None:
    sizes = torch.tensor([[10, 0], [0, 5], [30, 5], [1, 90]])
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack(
        [spread(sizes, 7, torch.rand(2, generator=generator)) for _ in range(4000)]
    )
    assert (draws.sum(dim=1) == 7).all()
    wanted = 7 * sizes / sizes.sum(0)
    assert ((draws - wanted).abs() < 1).all()
    assert (draws.double().mean(0) - wanted).abs().max() < 0.03


def test_a_seed_gives_other_batches() -> None:
    runs = [torch.arange(5), torch.arange(5, 8)]
    first = list(itertools.islice(endless(runs, (0, 1)), 16))
    assert first == list(itertools.islice(endless(runs, (0, 1)), 16))
    assert first != list(itertools.islice(endless(runs, (0, 2)), 16))
    assert sorted(first[:8]) == sorted(first[8:]) == list(range(8))
    assert max(first[:3]) < 5 or min(first[:3]) >= 5  # a run is read to its end


def test_batches_that_cannot_be_had() -> None:
    with pytest.raises(InputError, match="larger than the training part, 9 items"):
        Proportional(torch.tensor([4, 5]), 10, 0)
    with pytest.raises(InputError, match="a whole number of classes from 2 to 2"):
        PerClass(torch.tensor([[4, 4, 0], [4, 4, 0]]), 9, 3, 0)


def test_a_process_without_rows_takes_part() -> None:
    plan = Proportional(torch.tensor([100, 0]), 4, 0)
    drawn = next(iter(LaneBatches(plan, range(1, 2), lambda *_: [], 0)))
    assert drawn.indices.dtype == torch.int64
    assert (len(drawn.indices), drawn.mine) == (0, slice(4, 4))


@pytest.mark.parametrize("world", range(1, 8))
def test_lanes_are_whole_whoever_has_them(world: int) -> None:
    whole = own_shards(23, 7, 0, 1)
    parts = [run for rank in range(world) for run in own_shards(23, 7, rank, world)]
    assert parts == whole
    assert [shard for run in whole for shard in run] == list(range(23))
