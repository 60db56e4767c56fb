"""Small models, photos and tables that the tests of scale share."""

import functools
import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from gradsnap.coders import Coder
from gradsnap.inference.model import Model, NetworkSpec, load
from gradsnap.networks import build_network
from gradsnap.scale.encoding import Progress, encode_source, open_for
from gradsnap.scale.packed_model import PackedModel
from gradsnap.scale.sources import open_source
from gradsnap.scale.table import CodeTable
from gradsnap.scale.workers import ThisProcess, Workers
from tests.conftest import clustered, fitted

DIM = 8


def picture(number: int) -> bytes:
    """The bytes of a small JPEG."""
    few = np.random.default_rng(number).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    image = Image.fromarray(few).resize((12, 10), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95)
    return file.getvalue()


def write_photos(folder: Path, count: int, first: int = 0) -> list[str]:
    """Photos in two class folders and beside them; their ids, sorted."""
    names = []
    for number in range(first, first + count):
        name = (f"a/{number}.jpg", f"a-b/{number}.jpg", f"{number}.jpg")[number % 3]
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
        names.append(name)
    return sorted(names)


def write_tar(path: Path, numbers: range) -> list[str]:
    """A tar file of samples with labels; ids."""
    with tarfile.open(path, "w") as archive:
        for number in numbers:
            parts = {"jpg": picture(number), "cls": str(number % 3).encode()}
            for ending, data in parts.items():
                member = tarfile.TarInfo(f"{number:04d}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return [f"{path.name}/{number:04d}" for number in numbers]


def write_model(folder: Path) -> Path:
    """A model of photos whose codes differ from photo to photo."""
    _model().save(folder)
    return folder


@functools.cache
def _model() -> Model:
    options: dict[str, Any] = {"dim": DIM, "side": 8, "channels": 3}
    network = build_network("small", **options)
    images = torch.stack([_pixels(number) for number in range(60)])
    with torch.no_grad():
        rows = network.eval()(network.preprocess(images))
    coder = fitted("pq", num_codebooks=4).fit(rows)
    return Model(network, coder, NetworkSpec("small", options, 8, 3))


def _pixels(number: int) -> torch.Tensor:
    with Image.open(io.BytesIO(picture(number))) as image:
        small = np.array(image.convert("RGB").resize((8, 8)))
    return torch.from_numpy(small).permute(2, 0, 1)


def vector_coder(folder: Path, kind: str = "pq", size: int = 16) -> tuple[Path, Coder]:
    """A coder of vectors in a file."""
    coder = fitted(kind, num_codebooks=4, codebook_size=size)
    coder.save(folder / f"{kind}.safetensors")
    return folder / f"{kind}.safetensors", coder


def write_vectors(folder: Path, rows: int, seed: int = 1) -> tuple[Path, torch.Tensor]:
    """Vectors in an .npy file."""
    x = clustered(rows, seed=seed)
    path = folder / f"vectors-{seed}.npy"
    np.save(path, x.numpy())
    return path, x


def encoded(
    model: Path,
    source: str | Path,
    out: Path,
    workers: Workers | None = None,
    *,
    rows: int = 16,
    half: bool = True,
    **options: Any,
) -> tuple[CodeTable, Progress]:
    """The table of a source."""
    opened = load(model)
    size = opened.spec.side, opened.spec.channels
    read = open_source(str(source), None, size, rows)
    table = open_for(opened, read, str(source), str(out), half)
    packed = PackedModel.of(model)
    done = encode_source(packed, read, table, workers or ThisProcess(), **options)
    return CodeTable(out), done


def rows_of(table: CodeTable) -> dict[str, list[Any]]:
    """All columns, in order."""
    found: dict[str, list[Any]] = table.dataset.to_table().to_pydict()
    return found


class Dying:
    """Does some jobs, then is gone."""

    def __init__(self, after: int) -> None:
        self.after = after

    def run(self, make: Any, known: Any, jobs: Sequence[Any]) -> Iterator[Any]:
        for number, result in enumerate(ThisProcess().run(make, known, jobs)):
            if number == self.after:
                raise KeyboardInterrupt
            yield result
