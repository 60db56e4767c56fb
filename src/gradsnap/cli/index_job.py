"""What ``gradsnap index`` was asked for."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gradsnap.data import Dataset
    from gradsnap.index import Index
    from gradsnap.inference.model import Model


class Job(NamedTuple):
    """What was asked for."""

    paths: list[str]
    out: Path
    root: str | None
    skip_bad: bool
    workers: int
    network_from: str | None

    def open(self, skip_bad: bool | None = None) -> "Dataset":
        """The items, bad images left out if asked for."""
        from gradsnap.data import open_dataset

        skips = self.skip_bad if skip_bad is None else skip_bad
        return open_dataset(self.paths[-1], self.root, skip_bad=skips, labelled=False)

    def model(self) -> "Model | None":
        """The model that was named, if one was."""
        from gradsnap.inference.model import load

        return load(self.paths[0], self.network_from) if len(self.paths) == 2 else None


def checked_folder(
    paths: list[str], out: Path | None, add: bool, replace: bool, large: object
) -> Path:
    """The folder to write to."""
    from gradsnap.cli.checks import check_place
    from gradsnap.errors import InputError

    if large:
        raise InputError("--shards and --on are for a .lance table that encode wrote")
    if out is None:
        raise InputError("name the index folder to write with --out")
    if len(paths) > 2:
        raise InputError(f"expected [MODEL] SOURCE, got {len(paths)} paths")
    if replace and not add:
        raise InputError("--replace is for --add: a new index knows no items yet")
    if out.exists() and not add and begun_index(out) is None:
        raise InputError(f"{out} exists already: name another folder, or give --add")
    if not add:
        check_place(out)
    return out


def begun_index(out: Path) -> "Index | None":
    """The index of a build that was stopped, if that is what is there."""
    from gradsnap.collection.sources import unfinished
    from gradsnap.errors import GradsnapError
    from gradsnap.index import load_index

    try:
        made = load_index(out)
    except GradsnapError:
        return None
    return None if unfinished(made) is None else made
