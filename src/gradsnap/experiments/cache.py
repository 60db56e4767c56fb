"""Finished runs, each a JSON file that is named by all that its figures depend on.

A file is written beside and renamed, so that what was interrupted goes on where it
stopped. To run all anew, remove the folder.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsnap.files import make_folder, write_text

Record = dict[str, Any]


@dataclass(frozen=True)
class RunCache:
    """A folder of finished runs."""

    folder: Path

    def figures(self, about: Record, measure: Callable[[], Record]) -> Record:
        """What was measured, from the file where it was measured before.

        Args:
            about: all that the figures depend on, as plain values.
            measure: makes the figures, as plain values.
        """
        path = self.path(about)
        known = _read(path)
        if known is not None:
            return known
        figures = measure()
        make_folder(self.folder)
        text = json.dumps({"about": about, "figures": figures}, indent=2)
        write_text(path, text + "\n")
        return figures

    def path(self, about: Record) -> Path:
        """Where the figures of this lie, or will."""
        return self.folder / f"{name_of(about)}.json"

    def has(self, about: Record) -> bool:
        """Whether this was measured before."""
        return _read(self.path(about)) is not None


def name_of(about: Mapping[str, Any]) -> str:
    """20 digits for plain values, in whatever order they are given.

    >>> name_of({"a": 1, "b": 2}) == name_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(about, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def placeless(values: Any) -> Any:
    """The same values with the content of a file in place of its path.

    So that figures are found again wherever the file lies.
    """
    if isinstance(values, Mapping):
        return {key: placeless(one) for key, one in values.items()}
    if isinstance(values, list | tuple):
        return [placeless(one) for one in values]
    if isinstance(values, str) and "/" in values and Path(values).is_file():
        stat = Path(values).stat()
        return _digest_of_file(values, stat.st_size, stat.st_mtime_ns)
    return values


@functools.cache
def _digest_of_file(path: str, size: int, changed: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> Record | None:
    try:
        figures: Record = json.loads(path.read_text(encoding="utf-8"))["figures"]
    except (OSError, ValueError, KeyError):
        return None
    return figures
