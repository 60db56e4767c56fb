"""Index folders: what is refused, what survives a kill, and who may write."""

import gc
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradsnap.errors import FileFormatError, InputError
from gradsnap.index import (
    ExhaustiveIndex,
    HalfPrecision,
    LongerCode,
    folder_reading,
    folder_writing,
    load_index,
    segment_files,
)
from gradsnap.index.folder_writing import only_writer
from tests.conftest import DIM, clustered, fitted
from tests.index_builders import OVER_QUANTIZERS, made
from tests.platforms import needs_fork

QUERIES = clustered(5, seed=2)


@pytest.fixture(params=OVER_QUANTIZERS)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of an index of each kind with 120 items."""
    index = made(request.param, fitted("pq")).add(clustered(120, seed=1))
    index.save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an exhaustive index with ids of its own."""
    ids = torch.arange(120).flip(0) * 3
    index = ExhaustiveIndex(fitted("pq")).add(clustered(120, seed=1), ids)
    index.save(tmp_path / "index")
    return tmp_path / "index"


def answers(index: Any) -> list[list[int]]:
    rows: list[list[int]] = index.search(QUERIES, 130).ids.tolist()
    return rows


def test_a_loaded_index_answers_the_same(saved: Path) -> None:
    index = load_index(saved)
    first = answers(index)
    index.save(saved)
    index.save(saved.parent / "copy")
    assert answers(load_index(saved)) == first
    assert answers(load_index(saved.parent / "copy", verify=True)) == first
    assert repr(index).count("120 items")


def test_adding_and_removing_without_rebuilding(saved: Path) -> None:
    twin = load_index(saved)
    index = load_index(saved)
    big = {p.name: p.stat().st_ino for p in saved.glob("*.codes")}
    index.add(clustered(40, seed=4)).remove([0, 7, 130])
    index.save(saved)
    for name, inode in big.items():
        assert (saved / name).stat().st_ino == inode
    again = load_index(saved)
    expected = answers(twin.add(clustered(40, seed=4)).remove([0, 7, 130]))
    assert answers(again) == expected
    assert len(again.items.segments) == 2
    again.remove([1]).save(saved)
    last = load_index(saved)
    assert len(last) == 156
    last.compact().save(saved)
    assert not any((saved / name).exists() for name in big)
    assert len(list(saved.glob("*.codes"))) == 1
    assert answers(load_index(saved)) == answers(again)
    assert load_index(saved).add(clustered(1)).items.next_id == 161


def memory_of(array: Any) -> object:
    """What an array is a view of."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def test_saved_items_leave_memory(saved: Path) -> None:
    index = load_index(saved)
    width = index.items.segments[0].codes.shape[1]
    rows = segment_files.READ // width + 1
    for part in range(2):
        index.add(clustered(rows, seed=part))
        index.save(saved)
    first, *large = (memory_of(one.codes) for one in load_index(saved).items.segments)
    assert isinstance(first, bytes), "a file for a few codes would stay open"
    assert [type(one) for one in large] == [mmap.mmap] * 2
    assert len(index) == len(load_index(saved)) == 120 + 2 * rows


def test_readers_go_on_reading(saved: Path) -> None:
    reader, before = load_index(saved), answers(load_index(saved))
    load_index(saved).add(clustered(500, seed=7)).compact().save(saved)
    assert answers(reader) == before
    assert len(load_index(saved)) == 620


def test_a_second_writer_is_told(folder: Path) -> None:
    first, second = load_index(folder), load_index(folder)
    first.add(clustered(3)).save(folder)
    second.add(clustered(5))
    with pytest.raises(InputError, match="another writer has changed it"):
        second.save(folder)
    assert len(load_index(folder)) == 123
    with (
        only_writer(folder),
        pytest.raises(InputError, match="another writer is busy"),
    ):
        first.save(folder)
    first.save(folder)
    assert len(load_index(folder)) == 123


def test_another_index_is_replaced(folder: Path) -> None:
    other = ExhaustiveIndex(fitted("rvq")).add(clustered(10))
    other.save(folder)
    assert len(load_index(folder)) == 10
    assert {p.name for p in folder.iterdir()} == {
        "manifest.json",
        "writer.lock",
        *folder_reading.read_manifest(folder)["files"],
    }


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    index = ExhaustiveIndex(fitted("pq")).add(clustered(10))
    (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match="photos is not an index: it has no manifest"):
        index.save(tmp_path / "photos")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"cannot write .*file"):
        index.save(tmp_path / "file")
    with pytest.raises(InputError, match=r"the folder .*nowhere does not exist"):
        index.save(tmp_path / "nowhere" / "index")
    with pytest.raises(InputError, match=r"there is no index .*absent"):
        load_index(tmp_path / "absent")


# --- files that are not what they should be -----------------------------------


def test_truncated_and_changed_files_are_refused(saved: Path) -> None:
    for path in sorted(saved.iterdir()):
        if path.name == "writer.lock":
            continue
        whole = path.read_bytes()
        for wrong in (
            whole[:-1],
            b"",
            whole[: len(whole) // 2] + b"?" * 40,
            b"\0" * 99,
        ):
            path.write_bytes(wrong)
            with pytest.raises(FileFormatError):
                load_index(saved)
        path.unlink()
        with pytest.raises((FileFormatError, InputError)):
            load_index(saved)
        path.write_bytes(whole)
    assert len(load_index(saved)) == 120


def test_large_files_are_verified_on_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(folder.glob("*.codes"))
    raw = bytearray(path.read_bytes())
    raw[50] ^= 1
    path.write_bytes(raw)
    with pytest.raises(FileFormatError, match="was changed: its checksum"):
        load_index(folder)
    monkeypatch.setattr(folder_reading, "SMALL", 10)
    opened = load_index(folder)
    with pytest.raises(FileFormatError, match=r"\.codes was changed"):
        opened.verify()
    with pytest.raises(FileFormatError, match=r"\.codes was changed"):
        load_index(folder, verify=True)
    with pytest.raises(InputError, match="not loaded from files"):
        ExhaustiveIndex(fitted("pq")).verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "nonsense"}, "kind 'nonsense'; known: exhaustive"),
        ({"version": 99}, "has format version 99; this gradsnap reads 1"),
        ({"format": "other"}, "is not the manifest of an index"),
        ({"config": {"surprise": 1}}, "does not fit together"),
        ({"segments": 3}, "lacks 'segments'"),
        ({"files": {"../../etc/passwd": {}}}, "names a file"),
    ],
)
def test_a_foreign_manifest_is_refused(
    folder: Path, change: dict[str, Any], message: str
) -> None:
    content = json.loads((folder / "manifest.json").read_text())
    del content["sha256"]
    content |= change
    content["sha256"] = folder_reading._digest(content)
    (folder / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=message):
        load_index(folder)


def test_lists_that_lead_outside_are_refused(tmp_path: Path) -> None:
    made("inverted", fitted("pq")).add(clustered(50)).save(tmp_path / "index")
    content = folder_reading.read_manifest(tmp_path / "index")
    name = content["segments"][0]["columns"]["bounds"][0]
    bounds = np.fromfile(tmp_path / "index" / name, np.uint32)
    bounds[-1] = 10**6
    bounds.tofile(tmp_path / "index" / name)
    content["files"][name] = folder_reading.file_entry(tmp_path / "index" / name)
    folder_reading.write_manifest(tmp_path / "index", content)
    with pytest.raises(FileFormatError, match=r"lists of .* do not add up"):
        load_index(tmp_path / "index")


def test_other_codebooks_are_refused(folder: Path) -> None:
    assert len(load_index(folder, fitted("pq"))) == 120
    other = fitted("pq").update(clustered(30, seed=9))
    with pytest.raises(InputError, match="was made with another coder"):
        load_index(folder, other)
    with pytest.raises(InputError, match="was made with another coder"):
        load_index(folder, fitted("rvq"))


# --- kills --------------------------------------------------------------------

KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from gradsnap.index import load_index
from gradsnap.index.folder_reading import read_manifest
from tests.conftest import clustered

def writes(folder, count):
    index = load_index(folder)
    while True:
        index.add(clustered(100, seed=len(index)))
        if len(index) % 300 == 0:
            index.compact()
        index.save(folder)
        os.write(count, b".")

torch.set_num_threads(1)
folder, pauses = sys.argv[1], random.Random(0)
for _ in range(12):
    before = len(load_index(folder))
    reads, count = os.pipe()
    child = os.fork()
    if child == 0:
        writes(folder, count)
    os.close(count)
    os.read(reads, 1)
    time.sleep(pauses.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    saves = 1 + len(os.read(reads, 10_000))
    found = load_index(folder, verify=True)
    assert len(found) - before in (100 * saves, 100 * saves + 100), (saves, len(found))
    found.save(folder)
    left = {p.name for p in Path(folder).iterdir()} - {"manifest.json", "writer.lock"}
    assert left == set(read_manifest(Path(folder))["files"])
    print(saves, flush=True)
"""


def in_python(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own."""
    root = Path(__file__).parent.parent
    paths = os.pathsep.join([str(root / "src"), str(root)])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, str(folder)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )


@needs_fork
def test_a_kill_leaves_the_old_or_the_new(folder: Path) -> None:
    done = in_python(KILLER, folder)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 12


READER = """
import json, sys
import torch
from gradsnap.index import load_index
index = load_index(sys.argv[1])
ids = index.search(torch.zeros(3, 8), 5).ids[0]
sys.stdout.write(json.dumps(index.metadata(ids)))
"""


@pytest.mark.parametrize("times", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_reading_metadata_leaves_nothing_for_the_exit(
    times: int, tmp_path: Path
) -> None:
    """An Arrow thread that let go of a Python file at exit aborted the process."""
    index = ExhaustiveIndex(fitted("pq", codebook_size=4))
    for part in range(3):
        label = {"label": [f"{part} {i}" for i in range(400)]}
        index.add(clustered(400, seed=part), metadata=label)
        index.save(tmp_path / "index")
    for _ in range(times):
        done = in_python(READER, tmp_path / "index")
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)) == 5


@pytest.mark.parametrize(
    "step", ["write_segment", "write_removed", "_seal", "write_manifest"]
)
def test_an_error_at_any_step_changes_nothing(
    folder: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = answers(load_index(folder))
    index = load_index(folder).add(clustered(9)).remove([3])

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder_writing, step, fails)
        with pytest.raises(InputError, match="No space left"):
            index.save(folder)
        with pytest.raises(InputError, match="No space left"):
            index.save(folder.parent / "new")
    assert [p.name for p in folder.parent.iterdir()] == ["index"]
    assert answers(load_index(folder, verify=True)) == before
    index.save(folder)
    assert answers(load_index(folder)) == answers(index)


# --- size and re-ranking --------------------------------------------------------


def test_bytes_on_disk(tmp_path: Path) -> None:
    quantizer = fitted("pq", num_codebooks=4)  # 4 x 16: two bytes a code
    rows = 40_000
    codes = torch.randint(16, (rows, 4), generator=torch.Generator().manual_seed(0))
    ExhaustiveIndex(quantizer).add_codes(codes).save(tmp_path / "implicit")
    ids = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    ExhaustiveIndex(quantizer).add_codes(codes, ids).save(tmp_path / "explicit")
    for name, each in (("implicit", 2), ("explicit", 6)):
        size = sum(p.stat().st_size for p in (tmp_path / name).iterdir())
        assert size <= 1.05 * each * rows + 8000  # codebooks and manifest


def test_reranking(tmp_path: Path) -> None:
    x = clustered(200, seed=1)
    exact = torch.cdist(QUERIES.double(), x.half().double()).square()
    finer = fitted("pq", num_codebooks=8)
    longer = torch.cdist(QUERIES.double(), finer(x).double()).square()
    for refiner, twin in ((HalfPrecision(DIM), exact), (LongerCode(finer), longer)):
        for kind in OVER_QUANTIZERS:
            index = made(kind, fitted("pq"), refiner=refiner).add(x[:150]).add(x[150:])
            index.remove([5])
            index.save(tmp_path / "index")
            for each in (index, load_index(tmp_path / "index")):
                found = each.search(QUERIES, 5, rerank=200)
                wanted = twin.clone()
                wanted[:, 5] = torch.inf
                values = wanted.gather(1, found.ids).float()
                torch.testing.assert_close(found.distances, values, atol=1e-4, rtol=0)
                best = wanted.sort(dim=1).values[:, :5].float()
                torch.testing.assert_close(found.distances, best, atol=1e-4, rtol=0)
                plain = each.search(QUERIES, 5, rerank=0)
                bare = made(kind, fitted("pq")).add(x).remove([5]).search(QUERIES, 5)
                assert torch.equal(plain.ids, bare.ids)
            assert index.search(QUERIES, 190).ids.shape == (5, 190)
            with pytest.raises(InputError, match="codes alone leave nothing"):
                index.add_codes(torch.zeros(1, 3))


def test_refiners_refuse_what_they_cannot_hold() -> None:
    with pytest.raises(InputError, match="do not fit half precision"):
        HalfPrecision(2).encode(torch.tensor([[1.0, 1e6]]))
    with pytest.raises(InputError, match="refiner takes vectors of length 3"):
        ExhaustiveIndex(fitted("pq"), refiner=HalfPrecision(3))


# --- what a storm found ---------------------------------------------------------


def test_a_flush_that_fails_after_the_manifest_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new manifest stood, and the files it names were deleted."""
    before = len(load_index(folder))
    index = load_index(folder).add(clustered(9))
    write = folder_reading.write_manifest

    def fails_late(*arguments: Any) -> None:
        write(*arguments)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(folder_writing, "write_manifest", fails_late)
        with pytest.raises(InputError, match="Input/output error"):
            index.save(folder)
    assert len(load_index(folder, verify=True)) == before + 9


def test_a_link_in_the_place_of_a_file_is_refused(folder: Path) -> None:
    path = next(folder.glob("*.codes"))
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")
    with pytest.raises(FileFormatError, match="is a link"):
        load_index(folder)


def test_folders_of_killed_builds_are_removed(tmp_path: Path) -> None:
    left = tmp_path / ".new.abcd"
    left.mkdir()
    (left / "writer.lock").touch()
    (left / "000001-x.codes").write_bytes(b"x" * 1000)
    ExhaustiveIndex(fitted("pq")).add(clustered(5)).save(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_hundred_opens_leave_no_file_open(folder: Path) -> None:
    def handles() -> int:
        return len(os.listdir("/proc/self/fd"))

    load_index(folder).search(QUERIES, 3)
    before = handles()
    for _ in range(100):
        index = load_index(folder)
        index.search(QUERIES, 3)
        index.metadata(index.select()[:2])
    del index
    gc.collect()
    assert handles() <= before


def test_results_beyond_all_bounds_are_refused(folder: Path) -> None:
    for k in (0, 2**31, 10**30):
        with pytest.raises(InputError, match="k must be"):
            load_index(folder).search(QUERIES, k)


def test_ids_at_the_end_of_all_numbers(tmp_path: Path) -> None:
    ids = [2**63 - 2 - n for n in range(5)]
    index = ExhaustiveIndex(fitted("pq")).add(clustered(5), ids)
    index.save(tmp_path / "i")
    found = load_index(tmp_path / "i").search(clustered(5), 1)
    assert set(found.ids[:, 0].tolist()) <= set(ids)
    with pytest.raises(InputError, match="in the index already"):
        index.add(clustered(1), [2**63 - 2])
