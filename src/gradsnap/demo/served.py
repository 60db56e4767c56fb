"""The demo's digits as a folder of pictures, a model and an index, to be served."""

import importlib.util
from pathlib import Path

from PIL import Image

from gradsnap.demo.demo import Findings
from gradsnap.files import make_folder
from gradsnap.index import ExhaustiveIndex, HalfPrecision

PICTURES, MODEL, INDEX = "digits", "model", "digits.index"


def write_index(found: Findings, out: Path) -> Path:
    """Writes the database as pictures, and an index of them by the longest codes.

    The network that was trained through its codes, with its first seed. Embeddings are
    kept beside the codes, so that the page can show both rankings.

    Args:
        found: the demo's trainings.
        out: the report's folder.

    Returns:
        The index folder, for ``gradsnap serve``.
    """
    run = found.sides["codes"].lengths[found.settings.lengths[-1]][0]
    labels = run.database.labels.tolist()
    names = [f"{label}/{place:04d}.png" for place, label in enumerate(labels)]
    for name, image in zip(names, found.images[:, 0], strict=True):
        path = out / PICTURES / name
        make_folder(path.parent)
        Image.fromarray(image.numpy()).save(path)
    run.model.save(out / MODEL)
    index = ExhaustiveIndex(run.coder, refiner=HalfPrecision(run.coder.dim))
    index.roots = index.roots.with_folder(out / PICTURES)
    index.notes["model"] = str((out / MODEL).resolve())
    arrow = importlib.util.find_spec("pyarrow") is not None
    words = {"label": [str(label) for label in labels]} if arrow else None
    index.add(run.database.rows, names, words)
    index.save(out / INDEX)
    return out / INDEX
