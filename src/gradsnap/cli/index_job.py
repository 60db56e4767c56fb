"""What ``gradsnap index`` was asked for."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gradsnap.data import Dataset
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
