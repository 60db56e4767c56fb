"""Power cuts: recorded writes replayed, and what was not flushed is gone."""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from storm.kills import Ready, _Stopped, check_again, check_state, in_child, read_log
from storm.outcomes import SilentLoss
from storm.shim import Mode
from storm.works import copied

WAYS = ("strict", "names", "torn")


@dataclass
class File:
    """A file's bytes now, and those that have reached the disk."""

    now: bytearray = field(default_factory=bytearray)
    kept: bytes = b""


Names = dict[str, File | None]
"""Files by their paths; None for a folder."""


class Disk:
    """A disk that keeps what was flushed: bytes by files, names by folders.

    Args:
        root: what is there to begin with, all of it kept.
    """

    def __init__(self, root: Path) -> None:
        self.root = os.fspath(root)
        self.now: Names = {}
        for path in sorted(root.rglob("*")):
            data = path.read_bytes() if path.is_file() else b""
            file = File(bytearray(data), data) if path.is_file() else None
            self.now[os.fspath(path)] = file
        self.kept: Names = dict(self.now)

    def happen(self, words: list[str], data: bytes) -> None:
        """One recorded event."""
        what, one, other, at = words[0], words[1], words[2], int(words[3])
        if what == "write":
            file = self._file(one)
            start = len(file.now) if at < 0 else at
            file.now[start : start + len(data)] = data
        elif what == "create":
            self.now[one] = File()
        elif what == "truncate":
            del self._file(one).now[at:]
        elif what == "mkdir":
            self.now[one] = None
        elif what in ("unlink", "rmdir"):
            self.now.pop(one, None)
        elif what == "rename":
            self._rename(one, other)
        elif what == "fsync":
            self._flush(one)

    def _file(self, path: str) -> File:
        found = self.now.get(path)
        if found is None:
            found = self.now[path] = File()
        return found

    def _rename(self, one: str, other: str) -> None:
        moved = [p for p in self.now if p == one or p.startswith(one + os.sep)]
        for path in moved:
            self.now[other + path[len(one) :]] = self.now.pop(path)

    def _flush(self, path: str) -> None:
        """A file's bytes, or a folder's names; names in folders below are their own."""
        file = self.now.get(path)
        if file is not None:
            file.kept = bytes(file.now)
            return
        for names in (self.kept, self.now):
            for one in [p for p in names if os.path.dirname(p) == path]:
                self._keep_name(one)

    def _keep_name(self, path: str) -> None:
        """The name as it is now; a folder that moved takes its kept names along."""
        if path not in self.now:
            self.kept.pop(path, None)
            return
        new = path not in self.kept
        self.kept[path] = self.now[path]
        if new and self.now[path] is None:
            inside = [p for p in self.now if p.startswith(path + os.sep)]
            self.kept |= {p: self.now[p] for p in inside if self._had_name(p)}

    def _had_name(self, path: str) -> bool:
        """Whether the name was kept, perhaps where the folder was before."""
        return any(self.now[path] is file for file in self.kept.values())

    def cut(self, into: Path, way: str, numbers: random.Random) -> None:
        """Writes what is left after the power was cut.

        Args:
            into: an empty folder.
            way: "strict" keeps only what was flushed; "names" keeps all names, and of
                bytes only what was flushed; "torn" keeps all names, and of bytes that
                were not flushed some.
            numbers: decide what is torn.
        """
        names = self.kept if way == "strict" else self.now
        for path in sorted(names):
            place, file = into / os.path.relpath(path, self.root), names[path]
            if file is None:
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            data = file.kept
            if way == "torn" and bytes(file.now) != data:
                data = bytes(file.now[: numbers.randrange(len(file.now) + 1)])
            place.write_bytes(data)


class PowerCuts(_Stopped):
    """The power goes at any moment of any work: old or new; and new once it is done."""

    name = "power-cuts"
    weight = 50.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.logs = [self._recorded(one) for one in self.ready]

    def _recorded(self, one: Ready) -> tuple[Path, list[tuple[list[str], bytes]]]:
        folder, log = copied(one.before, self.place / "recorded"), self.place / "log"
        in_child(one.work, folder, 0, Mode.COUNT, 0, log)
        events = [event for event in read_log(log) if event[0][0] != "call"]
        folder.rename(self.place / f"recorded {one.work.name}")
        return folder, events

    def attempt(self, numbers: random.Random, place: Path) -> str:
        number = numbers.randrange(len(self.ready))
        one, (folder, events) = self.ready[number], self.logs[number]
        stop = numbers.choice((numbers.randrange(len(events) + 1), len(events)))
        way = numbers.choice(WAYS)
        disk = self._disk(one, folder)
        for words, data in events[:stop]:
            disk.happen(words, data)
        left = place / "f"
        left.mkdir()
        disk.cut(left, way, numbers)
        words_ = f"{one.work.name}, {way} after {stop} of {len(events)} writes"
        state = check_state(one, left, words_)
        if stop == len(events) and state != one.new:
            raise SilentLoss(f"{words_}: it was done, and is not kept")
        check_again(one, left, words_)
        return "answered"

    def _disk(self, one: Ready, folder: Path) -> Disk:
        """The state before, under the name it had when the writes were recorded."""
        disk = Disk(one.before)
        before, after = disk.root, os.fspath(folder)
        disk.now = {after + p[len(before) :]: f for p, f in disk.now.items()}
        disk.kept = dict(disk.now)
        disk.root = after
        return disk
