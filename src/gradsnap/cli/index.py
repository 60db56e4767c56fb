"""``gradsnap index``: a folder that can be searched, of images or vectors."""

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet, Root, SkipBad, Workers

if TYPE_CHECKING:
    from torch import Tensor

    from gradsnap.data import Dataset
    from gradsnap.index import Index
    from gradsnap.inference.embedding import EmbeddingStream
    from gradsnap.inference.model import Model

EXAMPLES = """
Examples:

`gradsnap index model photos/ --out photos.index`

`gradsnap index vectors.npy --bits 64 --kind inverted --lists 1024 --out v.index`
– without a model: codebooks are learned from the vectors

`gradsnap index vectors.npy --coder itq --bits 64 --out v.index` – hashes

`gradsnap index model more-photos/ --add --out photos.index`
"""

SAVE_EVERY = 1_048_576
"""Items added between two saves: what is saved is mapped, not held."""

SAMPLE = 65_536


def index(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="A model folder or a coder's file, and items; or vectors alone.",
            metavar="[MODEL] SOURCE",
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="The index folder to write.")],
    kind: Annotated[
        str, typer.Option(help="exhaustive, inverted, multi or local.")
    ] = "exhaustive",
    lists: Annotated[
        int | None,
        typer.Option(help="Lists of an inverted index; √n if not given."),
    ] = None,
    residual: Annotated[
        bool, typer.Option("--residual", help="Code what a list's centroid leaves.")
    ] = False,
    keep_half: Annotated[
        bool,
        typer.Option("--keep-half", help="Keep float16 embeddings too, to re-rank by."),
    ] = False,
    coder: Annotated[
        str, typer.Option(help="Without a model: pq, opq, rvq, …, or a hasher: itq, …")
    ] = "pq",
    bits: Annotated[int, typer.Option(help="Without a model: length of a code.")] = 64,
    add: Annotated[
        bool, typer.Option("--add", help="Add to the index that is there.")
    ] = False,
    root: Root = None,
    skip_bad: SkipBad = False,
    workers: Workers = 0,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Builds an index folder of images or vectors, or adds to one.

    Items of a folder are found by their path, rows of a file by their number. Memory
    does not grow with the number of items.
    """
    from gradsnap.cli.output import say

    started = time.monotonic()
    _check_arguments(paths, out, add)
    stream, model = _open(paths, (coder, bits), root, skip_bad, workers, network_from)
    if add:
        made = _open_index(out, model, new_coder=len(paths) == 1)
    else:
        options = {"num_lists": lists, "residual": residual}
        made = _new_index(model, stream, kind, keep_half, options)
        if model.folder is not None:
            made.notes["model"] = str(model.folder.resolve())
    count = _fill(made, stream, out)
    dataset = stream.dataset
    facts = {
        "items": count,
        "kind": made.kind,
        "coder": type(made.coder).__name__,
        "bits": made.coder.bits,
        "bytes_on_disk": sum(f.stat().st_size for f in out.iterdir() if f.is_file()),
        "skipped": len(dataset.skipped),
        "ignored": dataset.ignored,
        "seconds": round(time.monotonic() - started, 2),
        "folder": str(out),
    }
    say(f"index of {dataset.name}", facts, as_json=as_json, quiet=quiet)


def _check_arguments(paths: list[str], out: Path, add: bool) -> None:
    from gradsnap.errors import InputError

    if len(paths) > 2:
        raise InputError(f"expected [MODEL] SOURCE, got {len(paths)} paths")
    if out.exists() and not add:
        raise InputError(f"{out} exists already: name another folder, or give --add")


def _open(
    paths: list[str],
    new_coder: tuple[str, int],
    root: str | None,
    skip_bad: bool,
    workers: int,
    network_from: str | None,
) -> "tuple[EmbeddingStream, Model]":
    """The items as a stream of embeddings, and the model that makes them."""
    from torch import nn

    from gradsnap.coders import CODERS
    from gradsnap.data import open_dataset
    from gradsnap.errors import InputError
    from gradsnap.inference.model import Model, load
    from gradsnap.registry import chosen

    options: dict[str, Any] = {"skip_bad": skip_bad, "labelled": False}
    if len(paths) == 2:
        model = load(paths[0], network_from)
        dataset = model.open(paths[1], root, **options)
        return model.stream(dataset, workers), model
    dataset = open_dataset(paths[0], root, **options)
    if dataset.holds_images:
        raise InputError(
            f"{paths[0]} holds images, which need a model to embed them: "
            f"gradsnap index MODEL {paths[0]} --out FOLDER"
        )
    kind, bits = new_coder
    made = chosen(CODERS, kind, "coder").of_bits(dataset.item_shape[0], bits)
    model = Model(nn.Identity(), made)
    return model.stream(dataset, workers), model


def _open_index(out: Path, model: "Model", new_coder: bool) -> "Index":
    from gradsnap.index import load_index

    made = load_index(out)
    if not new_coder:  # vectors alone are added by the index's own coder
        model.check_index(made)
    return made


def _new_index(
    model: "Model",
    stream: "EmbeddingStream",
    kind: str,
    keep_half: bool,
    options: dict[str, Any],
) -> "Index":
    """An empty index, fitted to a sample where it learns something."""
    from gradsnap.index import INDEXES, HalfPrecision
    from gradsnap.registry import chosen

    kinds = {name: one for name, one in INDEXES.items() if name != "hamming"}
    refiner = HalfPrecision(model.coder.dim) if keep_half else None
    made = chosen(kinds, kind, "--kind").of_size(
        model.coder, len(stream), refiner=refiner, **options
    )
    if made.learns:
        indices, rows = stream.sample(SAMPLE)
        labels = stream.dataset.labels
        made.fit(rows, None if labels is None else labels[indices])
    return made


def _fill(made: "Index", stream: "EmbeddingStream", out: Path) -> int:
    """Adds all items, saving now and then; returns how many the index holds."""
    from gradsnap.index import load_index

    unsaved = 0
    for block, rows in stream.blocks("indexing"):
        made.add(rows, *_words(stream.dataset, block))
        unsaved += len(rows)
        if unsaved >= SAVE_EVERY:
            made.save(out)
            made, unsaved = load_index(out), 0
    made.save(out)
    return len(made)


def _words(
    dataset: "Dataset", block: "Tensor"
) -> tuple[list[str] | None, dict[str, list[str]] | None]:
    """Ids and metadata of a block: paths of images, and labels where there are any."""
    named = dataset.holds_images
    ids = [dataset.names[place] for place in block.tolist()] if named else None
    arrow = importlib.util.find_spec("pyarrow") is not None
    labels = dataset.labels
    if labels is None or labels.ndim > 1 or not arrow:
        return ids, None
    names = [dataset.classes[label] for label in labels[block].tolist()]
    return ids, {"label": names}
