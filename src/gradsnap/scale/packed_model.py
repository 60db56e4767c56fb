"""A model folder as bytes, so that workers need no folder in common."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from gradsnap.inference.model import CARD, CONFIG, WEIGHTS, Model, load


@dataclass(frozen=True)
class PackedModel:
    """The files of a model folder, or of a coder's file, by name."""

    files: tuple[tuple[str, bytes], ...]
    is_folder: bool
    network_from: str | None = None

    @classmethod
    def of(cls, path: str | Path, network_from: str | None = None) -> "PackedModel":
        """The model at a path; what is not there is left to ``load`` to say."""
        place = Path(path)
        if place.is_file():
            return cls(((place.name, place.read_bytes()),), False, network_from)
        files = [place / name for name in (CONFIG, CARD, WEIGHTS)]
        there = [one for one in files if one.is_file()]
        read = tuple((one.name, one.read_bytes()) for one in there)
        return cls(read, True, network_from)

    def load(self) -> Model:
        """The model, from a folder that is written, read and removed."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in self.files:
                (Path(folder) / name).write_bytes(data)
            path = Path(folder) if self.is_folder else Path(folder) / self.files[0][0]
            return load(path, self.network_from)
