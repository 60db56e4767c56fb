"""One writer at a time: the second is told, readers need no lock."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from gradsnap.errors import InputError

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


LOCK = "writer.lock"


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; the system lets go of it if the process dies.

    Raises:
        InputError: another process, or another thread, is writing.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from error
    try:
        try:
            _lock(handle)
        except OSError as error:
            raise InputError(
                f"cannot write {folder}: another writer is at it; try again when it is "
                "done, and nothing is lost"
            ) from error
        yield
    finally:
        os.close(handle)
