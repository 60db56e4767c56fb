"""Processes of a try: the forked one and all that it starts, as one group."""

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MEMORY = 6 * 2**30
"""Bytes of addresses a process may take beyond what it has: huge numbers fail fast."""


class Seen(NamedTuple):
    """What the system says of a process."""

    state: str
    """R for at work, S for asleep, D for waiting for a disk, Z for ended."""
    group: int
    seconds: float
    """Of processor time, those of children that have ended included."""


def lead_group(pid: int = 0) -> None:
    """Makes a process the first of a group; this one, where no other is named."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(pid, pid)


def end_group(leader: int) -> None:
    """Ends a process and all of its group, those that outlived it included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def seen(pid: int) -> Seen | None:
    """What is known of a process; None where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = sum(map(int, fields[11:15]))
    return Seen(fields[0], int(fields[2]), ticks / os.sysconf("SC_CLK_TCK"))


def group(leader: int) -> Iterator[Seen]:
    """The processes of a group."""
    for path in Path("/proc").glob("[0-9]*"):
        one = seen(int(path.name))
        if one is not None and one.group == leader:
            yield one


def worked() -> float:
    """Processor seconds of this process's children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def limit_memory() -> None:
    """Lets what asks this process for too much memory fail at once."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard)
    )
