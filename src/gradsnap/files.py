"""Files written beside and renamed: a crash leaves the old file or the new one."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gradsnap.errors import InputError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path in the same folder; renames it to ``path`` at the end.

    If the body raises (a full disk, Ctrl-C), the temporary file is removed and
    whatever stood at ``path`` before still stands there.

    Raises:
        InputError: the folder of ``path`` does not exist or cannot be written to, or
            ``path`` is itself a folder.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {target}: the folder {folder} does not exist")
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder, name a file in it")
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush_to_disk(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Makes a folder with its parents, or says why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make the folder {folder}: {error.strerror}"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Writes a text beside ``path`` and renames it into place."""
    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def _flush_to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
