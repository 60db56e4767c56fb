"""Sources in shards: each process has its own part, and all parts are the whole."""

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
import torch
from pyarrow import parquet

from gradsnap.data import NameProtocol, OrderedBatches, ShardedDataset, loader
from gradsnap.data import open_dataset as open_
from gradsnap.data.protocols.by_name import SampledSplit
from gradsnap.data.shards import Summary
from gradsnap.data.shards.part import agreed_classes
from gradsnap.data.shards.reader import Listed, Shard
from gradsnap.data.shards.tar_shards import TarShards
from gradsnap.errors import FileFormatError, InputError
from gradsnap.places import place_of
from gradsnap.training.processes import Processes
from tests.data_files import png_bytes, write_tar
from tests.shard_parts import (
    ITEMS,
    KINDS,
    SHARDS,
    on_processes,
    opened,
    write_folders,
    write_tars,
)


@pytest.fixture(params=list(KINDS))
def source(request, tmp_path: Path) -> Path:
    return KINDS[request.param](tmp_path)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_parts_are_disjoint_and_together_everything(source: Path, world: int) -> None:
    [whole] = on_processes(1, lambda one: opened(source, one))
    parts = on_processes(world, lambda one: opened(source, one))
    names = [name for part in parts for name in part.names]
    assert names == list(whole.names)
    assert len(set(names)) == len(names) == SHARDS * ITEMS
    for part in parts:
        assert len(part.names) < len(names) or world == 1
        assert part.total == len(names)
        assert part.classes == whole.classes
        here = torch.arange(part.first, part.first + len(part))
        assert part.labels is not None
        assert whole.labels is not None
        assert torch.equal(part.labels, whole.labels[here])
        some = torch.tensor([len(part) - 1, 0])
        assert torch.equal(part.items.batch(some), whole.items.batch(here[some]))


def test_a_source_opens_as_any_data_set(source: Path) -> None:
    by_path = open_("sharded", source) if source.name == "folders" else open_(source)
    assert isinstance(by_path, ShardedDataset)
    copy = pickle.loads(pickle.dumps(by_path))
    assert list(copy.names) == list(by_path.names)
    assert torch.equal(copy[5][0], by_path[5][0])
    if by_path.holds_images:
        assert by_path.reading(side=8, channels=1).item_shape == (1, 8, 8)
    assert by_path.items.batch(torch.tensor([]).long()).shape == (
        0,
        *by_path.item_shape,
    )


@pytest.mark.parametrize("kind", ["tar", "parquet", "folders"])
def test_a_worker_process_reads_what_lies_here(tmp_path: Path, kind: str) -> None:
    dataset = open_("sharded", KINDS[kind](tmp_path))
    batches = OrderedBatches(torch.arange(len(dataset)).flip(0), 50)
    here = [items for items, _ in loader(dataset, batches)]  # with files open
    there = [items for items, _ in loader(dataset, batches, 1)]
    assert torch.equal(torch.cat(here), torch.cat(there))


def divided(dataset: ShardedDataset, one: Processes, **more: int) -> SampledSplit:
    protocol = NameProtocol(queries=0.2, validation=0.2, **more)
    samples = protocol.samples(protocol.parts(dataset.names, 3), dataset.first)
    return protocol.split(one.exchanged(samples))


@pytest.mark.parametrize("caps", [{}, {"most_queries": 5, "most_searched": 20}])
def test_splits_are_equal_for_every_number_of_processes(
    source: Path, caps: dict[str, int]
) -> None:
    found = [
        split.hash
        for world in (1, 2, 4)
        for split in on_processes(
            world, lambda one: divided(opened(source, one), one, **caps)
        )
    ]
    assert len(found) == 7
    assert len(set(found)) == 1


def test_parts_of_a_split_by_names(tmp_path: Path) -> None:
    dataset = opened(write_tars(tmp_path), Processes())
    split = divided(dataset, Processes())
    every = torch.cat([split.train, split.validation, split.queries])
    assert torch.equal(every.sort().values, torch.arange(len(dataset)))
    kept = torch.cat([split.train, split.validation]).sort().values
    assert torch.equal(split.database, kept)
    assert torch.equal(split.validation_database, split.train)
    few = divided(dataset, Processes(), most_queries=5, most_searched=20)
    assert [len(few.queries), len(few.validation), len(few.train)] == [5, 5, 20]
    assert few.num_training == len(split.train)
    assert torch.isin(few.train, split.train).all()
    # samples of the database hold items that trained and items that did not
    assert torch.isin(few.database, split.validation).any()
    assert torch.isin(few.database, split.train).any()


def test_what_is_added_later_changes_no_part(tmp_path: Path) -> None:
    names = [f"a.tar/{row}" for row in range(200)]
    protocol = NameProtocol()
    few, many = protocol.parts(names[:100], 0), protocol.parts(names, 0)
    assert np.array_equal(few.queries, many.queries[:100])
    assert np.array_equal(few.validation, many.validation[:100])
    other = protocol.parts(names, 1)
    assert not np.array_equal(other.queries, many.queries)


def test_shares_by_names_are_as_asked() -> None:
    parts = NameProtocol(queries=0.1, validation=0.2).parts(map(str, range(20_000)), 0)
    assert abs(parts.queries.mean() - 0.1) < 0.01
    assert abs(parts.validation.mean() - 0.18) < 0.01


def test_too_few_items_are_refused() -> None:
    protocol = NameProtocol(queries=0.01)
    with pytest.raises(InputError, match="2 items are too few to divide by their na"):
        protocol.split([protocol.samples(protocol.parts(["a", "b"], 0), 0)])


def test_classes_are_agreed_on() -> None:
    parts = [Summary(1, ("dog", "10"), 0, ()), Summary(1, ("cat",), 0, ())]
    assert agreed_classes(parts, "x") == ("10", "cat", "dog")
    with pytest.raises(InputError, match="some of its shards have labels and others"):
        agreed_classes([*parts, Summary(1, (), 0, ())], "x")


def test_more_processes_than_shards_or_lanes(tmp_path: Path) -> None:
    source = write_tars(tmp_path)
    with pytest.raises(InputError, match="6 shards are too few for 7 processes"):
        opened(source, Processes(6, 7))
    with pytest.raises(InputError, match=r"give data\.lanes=4"):
        opened(source, Processes(0, 4), lanes=3)


def test_an_empty_shard_is_named(tmp_path: Path) -> None:
    source = write_tars(tmp_path)
    write_tar(source / "shard-00002.tar", {})
    with pytest.raises(InputError, match=r"shard-00002\.tar of .* holds no items"):
        open_(source)


@pytest.mark.parametrize("cut", [100, 3000])
def test_a_truncated_tar_is_named(tmp_path: Path, cut: int) -> None:
    source = write_tars(tmp_path)
    path = source / "shard-00001.tar"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FileFormatError, match=r"shard-00001\.tar is truncated or no t"):
        open_(source)


def test_a_tar_that_is_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"no tar" * 1000)
    with pytest.raises(FileFormatError, match=r"x\.tar is truncated or no tar"):
        open_(tmp_path / "x.tar")
    with pytest.raises(InputError, match="there is no file"):
        open_("sharded", tmp_path / "y.tar")


def test_a_missing_label_is_named_or_left_out(tmp_path: Path) -> None:
    good = {f"{row}": (png_bytes(row), "cat") for row in range(3)}
    write_tar(tmp_path / "x.tar", good | {"none": (png_bytes(9), None)})
    with pytest.raises(InputError, match=r"1 of 4 items have no label.*x\.tar/none"):
        open_(tmp_path / "x.tar")
    dataset = open_(tmp_path / "x.tar", skip_bad=True)
    assert list(dataset.names) == ["x.tar/0", "x.tar/1", "x.tar/2"]
    assert dataset.skipped == ("x.tar/none",)
    assert open_(tmp_path / "x.tar", labelled=False).labels is None


def test_a_bad_image_is_named_or_left_out(tmp_path: Path) -> None:
    samples = {f"{row}": (png_bytes(row), f"{row % 2}") for row in range(4)}
    write_tar(tmp_path / "x.tar", samples | {"1": (b"no image", "1")})
    with pytest.raises(FileFormatError, match=r"x\.tar/1 cannot be decoded.*skip-bad"):
        open_(tmp_path / "x.tar").items.batch(torch.arange(4))
    dataset = open_(tmp_path / "x.tar", skip_bad=True)
    assert list(dataset.names) == ["x.tar/0", "x.tar/2", "x.tar/3"]
    assert dataset.labels is not None
    assert dataset.labels.tolist() == [0, 0, 1]
    assert torch.equal(dataset[2][0], open_(tmp_path / "x.tar")[3][0])


@pytest.mark.parametrize("world", [1, 2, 3])
def test_lanes_know_what_was_left_out(tmp_path: Path, world: int) -> None:
    source = write_tars(tmp_path)
    bad = {f"{row}": (png_bytes(row), "cat") for row in range(4)}
    write_tar(source / "shard-00001.tar", bad | {"2": (b"no image", "cat")})
    parts = on_processes(world, lambda one: opened(source, one, skip_bad=True))
    assert sum(map(len, parts)) == parts[0].total == 5 * ITEMS + 3
    assert {part.total_left_out for part in parts} == {1}
    sizes = [size for part in parts for size in np.diff(part.lanes.starts).tolist()]
    assert sizes == [ITEMS, 3, *[ITEMS] * 4]
    lanes = [part.lanes.lane_of(np.arange(len(part))) for part in parts]
    assert np.bincount(np.concatenate(lanes)).tolist() == sizes


def test_rows_that_are_left_out_of_tables(tmp_path: Path) -> None:
    images = [png_bytes(row) for row in range(4)]
    columns = {"image": [images[0], b"", images[2], images[3]], "label": [0, 1, 0, 1]}
    parquet.write_table(arrow.table(columns), tmp_path / "x.parquet", row_group_size=2)
    dataset = open_(tmp_path / "x.parquet", skip_bad=True)
    assert list(dataset.names) == ["x.parquet:0", "x.parquet:2", "x.parquet:3"]
    assert torch.equal(dataset[1][0], open_(tmp_path / "x.parquet")[2][0])


def test_several_labels_are_refused(tmp_path: Path) -> None:
    columns = {"image": [png_bytes(0)], "labels": [[1, 2]]}
    parquet.write_table(arrow.table(columns), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="rows of labels hold several labels"):
        open_(tmp_path / "x.parquet")


def test_lists_of_tars_are_kept(tmp_path: Path, monkeypatch) -> None:
    source, kept = write_tars(tmp_path), tmp_path / "kept"
    first = opened(source, Processes(), kept=kept)
    assert len(list(kept.glob("listing-*.npz"))) == SHARDS
    seen: list[str] = []
    listed = TarShards.listed

    def told(self: TarShards, shard: Shard) -> Listed:
        seen.append(shard.name)
        return listed(self, shard)

    monkeypatch.setattr(TarShards, "listed", told)
    again = opened(source, Processes(), kept=kept)
    assert not seen
    assert list(again.names) == list(first.names)
    assert torch.equal(again[7][0], first[7][0])
    write_tar(source / "shard-00003.tar", {"new": (png_bytes(1), "cat")})
    assert "shard-00003.tar/new" in opened(source, Processes(), kept=kept).names
    assert len(seen) == 1
    for listing in kept.glob("listing-*.npz"):
        listing.write_bytes(b"damaged")
    assert list(opened(source, Processes(), kept=kept).names)[7] == first.names[7]
    assert len(seen) == 1 + SHARDS


def test_hidden_and_other_members_are_no_items(tmp_path: Path) -> None:
    parts = {"a.json": b"{}", "a.jpg": png_bytes(1), "._a.jpg": b"", "b.cls": b"cat"}
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, data in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    assert list(open_(tmp_path / "x.tar").names) == ["x.tar/a"]


@pytest.mark.parametrize("scheme", ["memory", "file"])
@pytest.mark.parametrize("kind", ["tar", "parquet", "folders"])
def test_addresses(tmp_path: Path, scheme: str, kind: str) -> None:
    source = KINDS[kind](tmp_path)
    address = f"file://{source}"
    if scheme == "memory":
        address = f"memory://{tmp_path.name}-{kind}"
        for file in (one for one in source.rglob("*") if one.is_file()):
            name = file.relative_to(source).as_posix()
            place_of(address).below(name).write(file.read_bytes())
    there, here = open_(address), open_("sharded", source)
    assert list(there.names) == list(here.names)
    some = torch.tensor([70, 3, 4])
    assert torch.equal(there.items.batch(some), here.items.batch(some))


def test_what_is_gone_is_one_sentence(tmp_path: Path) -> None:
    source = write_folders(tmp_path)
    dataset = open_("sharded", source)
    (source / dataset.names[3]).unlink()
    with pytest.raises(InputError, match=r"folders cannot be read: .*No such file"):
        dataset.items.batch(torch.tensor([3]))
    with pytest.raises(InputError, match="there is no folder"):
        open_(f"file://{tmp_path}/nothing")


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    source = write_folders(tmp_path)
    (source / "class 0" / "back").symlink_to(source / "class 0")
    assert len(open_("sharded", source)) == SHARDS * ITEMS


def test_a_folder_of_classes_with_a_tar_beside_stays_one(tmp_path: Path) -> None:
    source = write_folders(tmp_path)
    write_tar(source / "backup.tar", {"0": (png_bytes(0), "cat")})
    assert not isinstance(open_(source), ShardedDataset)
