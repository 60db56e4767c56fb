"""Works that write: what each begins from, does, and must have left when it is done."""

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from safetensors.torch import load_file

import gradsnap as gs
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.networks import build_network
from gradsnap.serve.opened import OpenedIndex
from gradsnap.serve.places import FolderPlace
from gradsnap.serve.refusals import Refusal
from gradsnap.serve.settings import ServeSettings
from gradsnap.serve.writing import Writer
from storm import commands, good
from storm.hostile_models import TRAINING, labelled_vectors


class Work(ABC):
    """Something that is done in a folder, and can be stopped anywhere."""

    name: ClassVar[str]
    quick: ClassVar[bool] = True
    """Whether doing it takes milliseconds."""

    def __init__(self, sources: Path) -> None:
        self.sources = sources
        """What lies outside of the folder and is only read."""

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Fills an empty folder with the state before."""

    @abstractmethod
    def do(self, folder: Path) -> int:
        """Does the work; the exit code of its command."""

    @abstractmethod
    def state(self, folder: Path) -> Any:
        """What a user can see of the state, as plain values; opens and verifies."""

    def again(self, folder: Path) -> int:
        """Does it again after it was stopped, as a user would."""
        return self.do(folder)


class Verb(Work):
    """A work of the command line."""

    @abstractmethod
    def words(self, folder: Path) -> tuple[object, ...]:
        """What is typed behind ``gradsnap``."""

    def do(self, folder: Path) -> int:
        said = commands.run(*self.words(folder))
        if said.code not in (0, 1):
            raise RuntimeError(said.err)
        return said.code


def index_state(folder: Path) -> Any:
    """Ids, labels and codes of an index, or None where there is none."""
    if not folder.exists():
        return None
    index = gs.load_index(folder, verify=True)
    ids: Any = list(index.select())
    codes, _ = index.items.codes_of(index.select()) if ids else (None, None)
    rows = [] if codes is None else codes.tolist()
    found = [str(one) for one in ids]
    return sorted(zip(found, rows, index.metadata(ids), strict=True), key=str)


class Build(Verb):
    """``gradsnap index`` of vectors."""

    name = "index"

    def prepare(self, folder: Path) -> None:
        coder = self.sources / "coder.safetensors"
        if not coder.exists():
            good.coder("pq").save(coder)
            np.save(self.sources / "rows.npy", good.rows(40, 3).numpy())
            np.save(self.sources / "more.npy", good.rows(9, 4).numpy())

    def words(self, folder: Path) -> tuple[object, ...]:
        coder, rows = self.sources / "coder.safetensors", self.sources / "rows.npy"
        return ("index", coder, rows, "--out", folder / "i", "--kind", "inverted")

    def again(self, folder: Path) -> int:
        return 0 if (folder / "i").exists() else self.do(folder)

    def state(self, folder: Path) -> Any:
        return index_state(folder / "i")


class Add(Build):
    """``gradsnap index --add``."""

    name = "index --add"

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        Build(self.sources).do(folder)

    def words(self, folder: Path) -> tuple[object, ...]:
        more = self.sources / "more.npy"
        return ("index", more, "--add", "--out", folder / "i")

    def again(self, folder: Path) -> int:
        return self.do(folder)  # the same source once more adds nothing twice


class Changed(Work):
    """An index of photos' names with metadata, changed by its verbs."""

    def prepare(self, folder: Path) -> None:
        good.saved("multi", folder / "i")

    def state(self, folder: Path) -> Any:
        return index_state(folder / "i")


class Remove(Changed, Verb):
    """``gradsnap remove``."""

    name = "remove"

    def words(self, folder: Path) -> tuple[object, ...]:
        return ("remove", folder / "i", "--where", "label = 1")

    def again(self, folder: Path) -> int:
        self.do(folder)  # an error where nothing is left to remove
        return 0


class Compact(Changed):
    """``Index.compact`` and ``save``: other files, the same items."""

    name = "compact"

    def do(self, folder: Path) -> int:
        gs.load_index(folder / "i").compact().save(folder / "i")
        return 0


class Update(Changed):
    """Names and metadata written anew."""

    name = "update"

    def do(self, folder: Path) -> int:
        index = gs.load_index(folder / "i")
        ids = [one for one in ("5.jpg", "6.jpg") if one in index]
        index.update(ids, {"label": [9] * len(ids)})
        if "7.jpg" in index:
            index.rename({"7.jpg": "seven.jpg"})
        index.save(folder / "i")
        return 0


class Serve(Changed):
    """An item added and one removed, as the server does it."""

    name = "serve"

    def do(self, folder: Path) -> int:
        writer = Writer(
            OpenedIndex("i", FolderPlace(str(folder / "i")), ServeSettings())
        )
        if "new" in writer.opened.version.index:
            return 0
        try:
            writer.add(good.rows(1, 8)[0], "new", {"label": 7})
        except Refusal as refusal:
            if refusal.status != 500:  # nobody else writes here
                raise
            return 1
        return 0


class Encode(Verb):
    """``gradsnap encode``: codes in a file."""

    name = "encode"

    def prepare(self, folder: Path) -> None:
        Build(self.sources).prepare(folder)

    def words(self, folder: Path) -> tuple[object, ...]:
        coder, rows = self.sources / "coder.safetensors", self.sources / "rows.npy"
        return ("encode", coder, rows, "--out", folder / "codes.npy")

    def state(self, folder: Path) -> Any:
        path = folder / "codes.npy"
        return np.load(path).tolist() if path.exists() else None


class Export(Verb):
    """``gradsnap export --to faiss``, with the names of its ids beside."""

    name = "export"

    def prepare(self, folder: Path) -> None:
        source = self.sources / "export.index"
        if not source.exists():
            good.saved("exhaustive", source)

    def words(self, folder: Path) -> tuple[object, ...]:
        source = self.sources / "export.index"
        return ("export", source, "--to", "faiss", "--out", folder / "x.faiss")

    def again(self, folder: Path) -> int:
        return 0 if (folder / "x.faiss").exists() else self.do(folder)

    def state(self, folder: Path) -> Any:
        import faiss

        path, names = folder / "x.faiss", folder / "x.faiss.names.json"
        if not path.exists():
            return None
        return faiss.read_index(str(path)).ntotal, names.exists()


class Train(Verb):
    """``gradsnap train``, resumed until it ends: the same bits."""

    name = "train"
    quick = False

    def prepare(self, folder: Path) -> None:
        if not (self.sources / "train.npz").exists():
            labelled_vectors(self.sources / "train.npz")

    def words(self, folder: Path) -> tuple[object, ...]:
        source = self.sources / "train.npz"
        return (
            "train", source, "--bits", 8, "--out", folder / "m", "--no-beside-plain",
            "--quiet", *TRAINING,
        )  # fmt: skip

    def again(self, folder: Path) -> int:
        done = (folder / "m" / "weights.safetensors").exists()
        return 0 if done else self.do(folder)

    def state(self, folder: Path) -> Any:
        path = folder / "m" / "weights.safetensors"
        if not path.exists():
            return None
        gs.load(folder / "m")
        return {name: value.tolist() for name, value in sorted(load_file(path).items())}


class SaveModel(Work):
    """``Model.save``: weights, card and configuration."""

    name = "save a model"

    def prepare(self, folder: Path) -> None:
        """Begins from nothing."""

    def do(self, folder: Path) -> int:
        network = build_network("head", input_dim=8, dim=8)
        spec = NetworkSpec("head", {"input_dim": 8, "dim": 8})
        Model(network, good.coder("pq"), spec).save(folder / "m", "# settings\n")
        return 0

    def state(self, folder: Path) -> Any:
        if not (folder / "m" / "weights.safetensors").exists():
            return None
        return gs.load(folder / "m").coder.fingerprint()


WORKS: dict[str, type[Work]] = {
    one.name: one
    for one in (
        Build, Add, Remove, Compact, Update, Serve, Encode, Export, SaveModel, Train,
    )
}  # fmt: skip
"""Everything that writes, by its name."""


def copied(before: Path, folder: Path) -> Path:
    """The state before, in a new folder."""
    return Path(shutil.copytree(before, folder, symlinks=True))
