"""``replacing``: the old file or the new one, never half of either."""

import os
import stat
import tempfile
from pathlib import Path

import pytest
import torch

from gradsnap import files
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import replacing, write_text
from tests.platforms import needs_permissions


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_new_file_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert not target.exists()
    assert target.read_text() == "new"
    assert names(tmp_path) == ["target"]


def test_an_old_file_stands_until_the_end(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    with replacing(str(target)) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["target"]


@pytest.mark.parametrize(
    "failure", [OSError("full"), KeyboardInterrupt(), ValueError()]
)
def test_a_failure_leaves_the_old_file_and_passes(
    tmp_path: Path, failure: BaseException
) -> None:
    target = tmp_path / "target"
    target.write_text("old")

    def write_half() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half of it")
            raise failure

    with pytest.raises(type(failure)) as caught:
        write_half()
    assert caught.value is failure
    assert target.read_text() == "old"
    assert names(tmp_path) == ["target"]


def test_the_bytes_are_on_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor: int) -> None:
        happened.append("fsync")
        fsync(descriptor)

    def noted_replace(path: Path, target: Path) -> Path:
        happened.append("replace")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    with replacing(tmp_path / "target") as temporary:
        temporary.write_text("new")
    assert happened == ["fsync", "replace", "fsync"]  # the last one of the folder


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_mode_is_that_of_any_new_file(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        with replacing(tmp_path / "target") as temporary:
            temporary.write_text("new")
        assert os.umask(mask) == mask  # left as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == mode


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(
            InputError, match=r"cannot write .*: the folder .* does not exist"
        ),
        replacing(tmp_path / "nowhere" / "target"),
    ):
        pytest.fail("the body must not run")


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with (
        pytest.raises(InputError, match=r"the folder .*file does not exist"),
        replacing(tmp_path / "file" / "target"),
    ):
        pytest.fail("the body must not run")


def test_a_target_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is a folder"), replacing(tmp_path):
        pytest.fail("the body must not run")


def test_a_folder_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated, because root may write anywhere."""

    def forbidden(**_: object) -> tuple[int, str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", forbidden)
    with (
        pytest.raises(InputError, match=r"cannot write .*target: Permission denied"),
        replacing(tmp_path / "target"),
    ):
        pytest.fail("the body must not run")


@needs_permissions
def test_a_folder_without_permission_is_really_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with (
            pytest.raises(InputError, match="Permission denied"),
            replacing(tmp_path / "target"),
        ):
            pytest.fail("the body must not run")
    finally:
        tmp_path.chmod(0o700)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".target.abc"
    left.write_bytes(b"x" * 1000)
    other = tmp_path / ".other.abc"
    other.touch()
    with replacing(tmp_path / "target") as temporary:
        temporary.write_text("new")
    assert names(tmp_path) == [".other.abc", "target"]


def test_what_a_living_process_writes_stays(tmp_path: Path) -> None:
    with replacing(tmp_path / "target") as first:
        first.write_text("first")
        with replacing(tmp_path / "target") as second:
            second.write_text("second")
            assert first.exists()
    assert (tmp_path / "target").read_text() == "first"
    assert names(tmp_path) == ["target"]


def test_tensors_are_written_to_no_file_but_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a library's own name would stay where the process is killed."""
    seen = []
    flush = files.flush

    def noted(path: Path) -> None:
        seen.append(names(tmp_path))
        flush(path)

    monkeypatch.setattr(files, "flush", noted)
    files.write_tensors(tmp_path / "t", {"x": torch.ones(3)}, {"format": "f"})
    assert [len(found) for found in seen] == [1, 1]
    assert seen[0][0].startswith(".t.")
    assert torch.equal(
        files.read_tensors(tmp_path / "t", "f", "x")[0]["x"], torch.ones(3)
    )


@pytest.mark.parametrize("text", ["[" * 10**5, "9" * 10**4, "{", "\udc80"])
def test_json_that_nobody_meant(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text, errors="surrogateescape")
    with pytest.raises(FileFormatError, match="truncated or not JSON"):
        files.read_json(tmp_path / "x.json")


def test_a_pipe_is_no_json(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json")
    with pytest.raises(FileFormatError, match="not a regular file"):
        files.read_json(tmp_path / "x.json")


def test_a_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    text = "first = 1\u2028\ncache = \udc80\nlast = 2\n"
    with pytest.raises(InputError, match=r"not UTF-8 in 'cache = \\udc80'"):
        write_text(tmp_path / "a.toml", text)
    assert not list(tmp_path.iterdir())
