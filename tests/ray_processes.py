"""Actors among the processes that this one started."""

import os
from pathlib import Path


def actors(title: str, root: int | None = None) -> list[int]:
    """Ids of processes below one whose command line holds a word."""
    found = []
    for folder in Path("/proc").iterdir():
        number = folder.name
        if number.isdecimal() and _is_below(int(number), root or os.getpid()):
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue  # gone meanwhile
            found += [int(number)] if title.encode() in words else []
    return found


def _is_below(pid: int, root: int) -> bool:
    """Whether a process descends from another."""
    while pid > 1 and pid != root:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(stat.rpartition(")")[2].split()[1])
    return pid == root
