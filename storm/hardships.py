"""Hard times for a process: a full disk, little memory, nobody who reads, Ctrl-C."""

import contextlib
import ctypes
import functools
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from gradsnap.cli import app as program

NOBODY = 65534
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
"""Numbers of the Linux system calls unshare and mount."""

Change = Callable[[], None]


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    """Its exit code, or minus the signal."""
    err: str


def command_in_child(
    words: tuple[object, ...], err: Path, before: Change, beside: Callable[[int], None]
) -> Ended:
    """Runs ``gradsnap`` in a forked process with streams of its own.

    Args:
        words: behind ``gradsnap``.
        err: file for standard error.
        before: what makes it hard, called in the child.
        beside: what is done to the child from outside, by its pid.
    """
    pid = os.fork()
    if pid == 0:
        _live(words, err, before)
    beside(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Ended(code, err.read_text(errors="replace") if err.exists() else "")


def _live(words: tuple[object, ...], err: Path, before: Change) -> NoReturn:
    """As an interpreter would: an exception is a traceback, what is unread is 120."""
    code = 1
    try:
        handle = os.open(err, os.O_WRONLY | os.O_CREAT, 0o666)
        os.dup2(handle, 2)
        out = os.open(os.devnull, os.O_WRONLY)
        os.dup2(out, 1)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        sys.argv = ["gradsnap", *map(str, words)]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        before()
        program.main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            code = 120
        os._exit(code)


def nothing(*_: object) -> None:
    """Makes nothing hard."""


def little_memory(megabytes: int) -> Change:
    """So many megabytes of addresses beyond what the process has."""

    def change() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return change


def nobody() -> None:
    """Becomes a user who may write nowhere."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def closed_output() -> None:
    """Standard output is closed."""
    os.close(1)
    sys.stdout = None


def unread_output() -> None:
    """Nobody reads the pipe that standard output is."""
    reads, writes = os.pipe()
    os.dup2(writes, 1)
    os.close(reads)


def full_output() -> None:
    """Standard output goes to a disk that is full."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def clock_back() -> None:
    """Each look at the clock finds it earlier."""
    began, looks = time.time(), [0]

    def earlier() -> float:
        looks[0] += 1
        return began - 86_400.0 * looks[0]

    time.time = earlier


def interrupting(after: float, again: float) -> Callable[[int], None]:
    """Ctrl-C after so many seconds, and once more."""

    def strike(pid: int) -> None:
        for pause in (after, again):
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    return strike


def can_mount() -> bool:
    """Whether this process may mount a disk in memory."""
    return os.geteuid() == 0 and sys.platform.startswith("linux")


@functools.cache
def _own_mounts(pid: int) -> None:
    """Lets what this process mounts be seen by it alone, and end with it."""
    library = ctypes.CDLL(None, use_errno=True)
    private = MS_REC | MS_PRIVATE
    if library.unshare(CLONE_NEWNS) or library.mount(None, b"/", None, private, None):
        raise OSError(ctypes.get_errno(), "no mounts of its own")


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A disk of so many kilobytes mounted on a folder."""
    _own_mounts(os.getpid())  # a worker that is ended leaves none behind
    folder.mkdir(exist_ok=True)
    options = f"size={kilobytes}k"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def read_only(folder: Path) -> None:
    """Lets the disk on a folder be read only from now on."""
    command = ["mount", "-o", "remount,ro", str(folder)]
    subprocess.run(command, check=True, capture_output=True)


def writable(folder: Path, kilobytes: int) -> None:
    """Lets the disk on a folder be written again, with room enough."""
    options = f"remount,rw,size={kilobytes}k"
    command = ["mount", "-o", options, str(folder)]
    subprocess.run(command, check=True, capture_output=True)
