"""``gradsnap index``: a folder that can be searched, of images or vectors."""

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Quiet, Root, SkipBad, Workers

if TYPE_CHECKING:
    from torch import Tensor

    from gradsnap.cli.sources import Coder
    from gradsnap.data import Dataset
    from gradsnap.inference.streams import EmbeddingStream

EXAMPLES = """
Examples:

`gradsnap index model photos/ --out photos.index`

`gradsnap index vectors.npy --bits 64 --kind inverted --lists 1024 --out v.index`
– without a model: codebooks are learned from the vectors

`gradsnap index model more-photos/ --add --out photos.index`
"""

SAVE_EVERY = 1_048_576
"""Items added between two saves: what is saved is mapped, not held."""

SAMPLE = 65_536


def index(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="A model folder or quantizer file, and items; or vectors alone.",
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
    quantizer: Annotated[
        str, typer.Option(help="Without a model: pq, opq, rvq, grvq, aq or cq.")
    ] = "pq",
    bits: Annotated[int, typer.Option(help="Without a model: length of a code.")] = 64,
    add: Annotated[
        bool, typer.Option("--add", help="Add to the index that is there.")
    ] = False,
    root: Root = None,
    skip_bad: SkipBad = False,
    workers: Workers = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Builds an index folder of images or vectors, or adds to one.

    Items of a folder are found by their path, rows of a file by their number. Memory
    does not grow with the number of items.
    """
    from gradsnap.cli.output import say
    from gradsnap.cli.sources import network_for, open_items
    from gradsnap.inference.streams import EmbeddingStream

    started = time.monotonic()
    coder, source = _coder(paths)
    model = None if coder is None else coder.model
    dataset = open_items(source, root, model, skip_bad)
    stream = EmbeddingStream(dataset, network_for(dataset, model), workers)
    if add:
        made = _opened(out, coder)
    else:
        _refuse_existing(out)
        options = {"num_lists": lists, "residual": residual, "keep_half": keep_half}
        made = _new(coder, stream, kind, options, (quantizer, bits))
        if coder is not None and model is not None:
            made.notes["model"] = str(Path(paths[0]).resolve())
    count = _filled(made, stream, out)
    facts = {
        "items": count,
        "kind": made.kind,
        "bits": made.quantizer.bits,
        "bytes_on_disk": sum(f.stat().st_size for f in out.iterdir() if f.is_file()),
        "skipped": len(dataset.skipped),
        "seconds": round(time.monotonic() - started, 2),
        "folder": str(out),
    }
    say(f"index of {dataset.name}", facts, as_json=as_json, quiet=quiet)


def _coder(paths: list[str]) -> tuple["Coder | None", str]:
    from gradsnap.cli.sources import open_coder
    from gradsnap.errors import InputError

    if len(paths) > 2:
        raise InputError(f"expected [MODEL] SOURCE, got {len(paths)} paths")
    return (open_coder(paths[0]) if len(paths) == 2 else None), paths[-1]


def _refuse_existing(out: Path) -> None:
    from gradsnap.errors import InputError

    if out.exists():
        raise InputError(f"{out} exists already: name another folder, or give --add")


def _opened(out: Path, coder: "Coder | None") -> Any:
    from gradsnap.index import load_index

    return load_index(out, None if coder is None else coder.quantizer)


def _new(
    coder: "Coder | None",
    stream: "EmbeddingStream",
    kind: str,
    options: dict[str, Any],
    learned: tuple[str, int],
) -> Any:
    """An empty index, fitted to a sample where it learns something."""
    from gradsnap.errors import InputError
    from gradsnap.index import INDEXES, HalfPrecision

    kinds = [name for name in INDEXES if name != "hamming"]
    if kind not in kinds:
        raise InputError(f"--kind cannot be {kind!r}; choose from {', '.join(kinds)}")
    sample = stream.sample(SAMPLE)
    quantizer = (
        _quantizer(*learned, sample.shape[1]) if coder is None else coder.quantizer
    )
    arguments: dict[str, Any] = {}
    if options["keep_half"]:
        arguments["refiner"] = HalfPrecision(quantizer.dim)
    if kind in ("inverted", "local"):
        few = max(1, round(len(stream) ** 0.5))
        arguments["num_lists"] = min(options["num_lists"] or few, len(sample))
    if kind in ("inverted", "multi"):
        arguments["residual"] = options["residual"]
    return INDEXES[kind](quantizer, **arguments).fit(sample)


def _quantizer(kind: str, bits: int, dim: int) -> Any:
    from gradsnap.training import make_config
    from gradsnap.training.learner import new_quantizer

    tables = {"quantizer": {"kind": kind, "bits": bits}}
    return new_quantizer(make_config(tables).quantizer, dim, seed=0)


def _filled(made: Any, stream: "EmbeddingStream", out: Path) -> int:
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


def _words(dataset: "Dataset", block: "Tensor") -> tuple[Any, Any]:
    """Ids and metadata of a block: paths of images, and labels where there are any."""
    images = len(dataset.item_shape) > 1
    ids = [dataset.names[place] for place in block.tolist()] if images else None
    arrow = importlib.util.find_spec("pyarrow") is not None
    labels = dataset.labels
    if labels is None or labels.ndim > 1 or not arrow:
        return ids, None
    names = [dataset.classes[label] for label in labels[block].tolist()]
    return ids, {"label": names}
