"""What a path or address holds, by its name and without opening it."""

import os
from pathlib import Path

TABLE = ".lance"

MARK = "shards.json"
"""Written last: a folder that has it holds shards, all of them."""


def is_table(address: str | os.PathLike[str]) -> bool:
    """Whether a path or address is called as a Lance table is."""
    return os.fspath(address).rstrip("/").endswith(TABLE)


def is_sharded(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder holds shards of an index."""
    return (Path(folder) / MARK).is_file()
