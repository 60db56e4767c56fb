"""Sources in shards: all rows once, in order, the same shards every time."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest

from gradsnap.errors import FileFormatError, InputError
from gradsnap.places import place_of
from gradsnap.scale.shard import Source
from gradsnap.scale.sources import open_source
from tests.scale_parts import picture, write_photos, write_tar, write_vectors

lance = pytest.importorskip("lance")


def all_rows(source: Source) -> tuple[list[Any], list[Any], list[dict[str, Any]]]:
    """Ids, items and metadata of all shards, in order."""
    ids: list[Any] = []
    items: list[Any] = []
    metadata: list[dict[str, Any]] = []
    for shard in source.shards():
        for chunk in source.read(shard):
            ids += list(chunk.ids)
            items += list(chunk.items)
            metadata += [] if chunk.metadata is None else chunk.metadata.to_pylist()
    return ids, items, metadata


def test_folders_in_the_order_of_paths(tmp_path: Path) -> None:
    names = write_photos(tmp_path / "photos", 20)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    (tmp_path / "photos" / ".hidden.jpg").write_text("no image")
    (tmp_path / "photos" / "a" / "back").symlink_to(tmp_path / "photos")
    source = open_source(str(tmp_path / "photos"), rows=6)
    ids, items, metadata = all_rows(source)
    assert ids == names
    assert items == [(tmp_path / "photos" / name).read_bytes() for name in names]
    assert {row["label"] for row in metadata} == {"a", "a-b", None}
    assert [shard.rows for shard in source.shards()] == [6, 6, 6, 2]
    again = open_source(str(tmp_path / "photos"), rows=6)
    assert source.shards() == again.shards()


def test_a_changed_file_changes_its_shard_alone(tmp_path: Path) -> None:
    names = write_photos(tmp_path / "photos", 20)
    source = open_source(str(tmp_path / "photos"), rows=5)
    before = [shard.key for shard in source.shards()]
    (tmp_path / "photos" / names[7]).write_bytes(b"other")
    after = [shard.key for shard in source.shards()]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False] + [
        True
    ] * 2


def test_any_file_system(tmp_path: Path) -> None:
    place = place_of("memory://some-photos/x")
    names = [f"{number}.jpg" for number in range(5)]
    for number, name in enumerate(names):
        place.below(name).write(picture(number))
    ids, items, _ = all_rows(open_source("memory://some-photos/x", rows=2))
    assert ids == names
    assert items == [picture(number) for number in range(5)]
    with pytest.raises(InputError, match="cannot be opened"):
        place_of("no-such-scheme://x")


def write_every_kind(folder: Path) -> None:
    """A folder of photos and one of tar files, a Parquet file and vectors."""
    write_photos(folder / "photos", 7)
    (folder / "tars").mkdir()
    write_tar(folder / "tars" / "0.tar", range(3))
    write_tar(folder / "tars" / "1.tar", range(3, 5))
    columns = {"key": list("abcd"), "image": [picture(n) for n in range(4)]}
    arrow.parquet.write_table(
        arrow.table(columns), folder / "p.parquet", row_group_size=2
    )
    np.save(folder / "x.npy", np.arange(12, dtype=np.float32).reshape(4, 3))


@pytest.mark.parametrize("kind", ["photos", "tars", "p.parquet", "x.npy"])
@pytest.mark.parametrize("scheme", ["memory", "file", "local", "zip"])
def test_every_kind_on_every_file_system(
    tmp_path: Path, scheme: str, kind: str
) -> None:
    """Pyarrow's own file system and three of fsspec's, all real."""
    write_every_kind(tmp_path)
    known = tmp_path / kind
    top = {
        "memory": f"memory://{tmp_path.name}-{kind}",
        "file": f"file://{tmp_path}",
        "local": f"local://{tmp_path}",
        "zip": "zip://",
    }[scheme]
    if scheme == "memory":
        files = [one for one in tmp_path.rglob("*") if one.is_file()]
        for one in files:
            place_of(top).below(str(one.relative_to(tmp_path))).write(one.read_bytes())
    word = f"{top}/{kind}"
    if scheme == "zip":
        shutil.make_archive(str(tmp_path / "whole"), "zip", tmp_path)
        word = f"zip://{kind}::file://{tmp_path}/whole.zip"
    ids, items, metadata = all_rows(open_source(word, rows=3))
    plain = all_rows(open_source(str(known), rows=3))
    assert (ids, len(metadata)) == (plain[0], len(plain[2]))
    for one, two in zip(items, plain[1], strict=True):
        assert np.array_equal(one, two) if kind == "x.npy" else one == two


def test_tar_files(tmp_path: Path) -> None:
    expected = write_tar(tmp_path / "0.tar", range(3))
    expected += write_tar(tmp_path / "1.tar", range(3, 5))
    ids, items, metadata = all_rows(open_source(str(tmp_path)))
    assert ids == expected
    assert items == [picture(number) for number in range(5)]
    assert [row["label"] for row in metadata] == ["0", "1", "2", "0", "1"]
    (tmp_path / "2.tar").write_bytes(b"x" * 2000)
    with pytest.raises(FileFormatError, match="no tar"):
        all_rows(open_source(str(tmp_path)))


def test_parquet_and_lance_alike(tmp_path: Path) -> None:
    pictures = [picture(number) for number in range(10)]
    columns = {"key": [f"k{n}" for n in range(10)], "image": pictures}
    table = arrow.table(columns | {"stars": list(range(10)), "nested": [[1]] * 10})
    arrow.parquet.write_table(table, tmp_path / "p.parquet", row_group_size=3)
    lance.write_dataset(table, tmp_path / "t.lance", max_rows_per_file=4)
    for name in ("p.parquet", "t.lance"):
        source = open_source(str(tmp_path / name), rows=4)
        ids, items, metadata = all_rows(source)
        assert source.holds_images
        assert (ids, items) == (columns["key"], pictures)
        assert metadata == [{"stars": number} for number in range(10)]
    assert [shard.rows for shard in source.shards()] == [4, 4, 2]


def test_rows_without_ids_are_numbered(tmp_path: Path) -> None:
    vectors = arrow.FixedSizeListArray.from_arrays(np.arange(12, dtype=np.float32), 3)
    arrow.parquet.write_table(
        arrow.table({"vector": vectors}), tmp_path / "v.parquet", row_group_size=2
    )
    ids, items, _ = all_rows(open_source(str(tmp_path / "v.parquet"), rows=2))
    assert ids == [f"v.parquet:{row}" for row in range(4)]
    assert np.array_equal(items, np.arange(12).reshape(4, 3))
    arrow.parquet.write_table(arrow.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="no column of images"):
        open_source(str(tmp_path / "x.parquet"))


def test_npy_by_ranges(tmp_path: Path) -> None:
    path, x = write_vectors(tmp_path, 50)
    source = open_source(str(path), rows=20)
    ids, items, _ = all_rows(source)
    assert ids == list(range(50))
    assert np.array_equal(items, x.numpy())
    assert [shard.rows for shard in source.shards()] == [20, 20, 10]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match="is truncated"):
        open_source(str(path))


def test_names_of_data_sets(tmp_path: Path) -> None:
    source = open_source("digits", None, (8, 1), 1000)
    ids, items, metadata = all_rows(source)
    assert len(ids) == len(set(ids)) == len(items) == 1797
    assert metadata[0] == {"label": "0"}
    with pytest.raises(InputError, match="there is no folder"):
        open_source(str(tmp_path / "nowhere"))
