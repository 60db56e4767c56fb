"""Large files of an index: damage is noticed by a sample of blocks, and by servers."""

from pathlib import Path

import pytest

from gradsnap.errors import FileFormatError
from gradsnap.index import (
    ExhaustiveIndex,
    blocks,
    folder_reading,
    folder_writing,
    load_index,
)
from gradsnap.index.blocks import every_block
from gradsnap.serve.opened import OpenedIndex
from gradsnap.serve.places import FolderPlace
from gradsnap.serve.scrubbing import Scrubber
from gradsnap.serve.settings import ServeSettings
from tests.conftest import clustered, fitted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose codes are a large file of several blocks."""
    for module in (folder_reading, folder_writing):
        monkeypatch.setattr(module, "SMALL", 200)
    monkeypatch.setattr(blocks, "BLOCK", 100)
    monkeypatch.setattr(blocks, "SAMPLED", 100)  # all of them, at every opening
    index = ExhaustiveIndex(fitted("pq")).add(clustered(300))
    index.save(tmp_path / "i")
    index.add(clustered(200, seed=1)).save(tmp_path / "i")
    return tmp_path / "i"


def largest(folder: Path) -> Path:
    return max(folder.glob("*.codes"), key=lambda path: path.stat().st_size)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("at", [0, 99, 100, 350, -1])
def test_a_changed_block_is_noticed_when_it_is_looked_at(folder: Path, at: int) -> None:
    assert len(load_index(folder)) == 500
    flip(largest(folder), at)
    with pytest.raises(FileFormatError, match="do not fit their checksum"):
        load_index(folder)


def test_a_few_blocks_are_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(blocks, "SAMPLED", 1)
    monkeypatch.setattr(blocks, "check_block", lambda path, sums, n: looked.append(n))
    load_index(folder)
    files = len({path for path, _, _ in every_block(folder, _manifest(folder))})
    assert 2 * files <= len(looked) <= 3 * files


def _manifest(folder: Path) -> folder_reading.Manifest:
    return folder_reading.read_manifest(folder)


def test_checksums_of_other_blocks_are_refused(folder: Path) -> None:
    content = _manifest(folder)
    name = largest(folder).name
    content["blocks"][name] = content["blocks"][name][:-16]
    kept = {k: v for k, v in content.items() if k not in ("format", "version")}
    folder_reading.write_manifest(folder, kept)
    with pytest.raises(FileFormatError, match="other blocks than its own"):
        load_index(folder)


def test_a_server_notices_damage_in_the_background(folder: Path) -> None:
    scrubber = Scrubber(OpenedIndex("i", FolderPlace(str(folder)), ServeSettings()))
    for block in scrubber._blocks():
        scrubber.look(*block)
    assert (scrubber.damage, scrubber.looked_at > 5) == (None, True)
    flip(largest(folder), 250)
    for block in scrubber._blocks():
        scrubber.look(*block)
    assert "do not fit their checksum" in (scrubber.damage or "")
    largest(folder).unlink()  # a newer version took its place
    scrubber.damage = None
    for path, sums, number in every_block(folder, _manifest(folder)):
        scrubber.look(path, sums, number)
    assert scrubber.damage is None
