"""``gradsnap index``: a folder that can be searched, of images or vectors."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet, Root, SkipBad, Workers

if TYPE_CHECKING:
    from gradsnap.collection.side_table import SideTable
    from gradsnap.data import Dataset
    from gradsnap.index import Index
    from gradsnap.inference.embedding import EmbeddingStream
    from gradsnap.inference.model import Model

EXAMPLES = """
Examples:

`gradsnap index photos/ --out photos.index` – any folder of photos, no model needed

`gradsnap index model photos/ --out photos.index` – by a model of yours

`gradsnap index photos/ --metadata people.csv --out photos.index` – more to filter by

`gradsnap index more-photos/ --add --out photos.index`

`gradsnap index vectors.npy --bits 64 --kind inverted --lists 1024 --out v.index`
– codebooks are learned from the vectors

`gradsnap index vectors.npy --coder itq --bits 64 --out v.index` – hashes
"""

SAMPLE = 65_536
VECTOR_BITS = 64
OWN_MODEL = "model"
"""Where an index that was made without a model keeps its own."""


def index(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Photos or vectors; before them a model folder or a coder's file, if "
            "you have one.",
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
        bool | None,
        typer.Option(
            help="Keep float16 embeddings too, to re-rank by; done for photos without "
            "a model.",
            show_default=False,
        ),
    ] = None,
    coder: Annotated[
        str, typer.Option(help="Without a model: pq, opq, rvq, …, or a hasher: itq, …")
    ] = "pq",
    bits: Annotated[
        int | None,
        typer.Option(
            help="Without a model: length of a code; 128 for photos, 64 for vectors.",
            show_default=False,
        ),
    ] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Add to the index that is there.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="With --add: index known items anew; else they stay."
        ),
    ] = False,
    metadata: Annotated[
        Path | None,
        typer.Option(help="A CSV table of more columns, joined by the files' names."),
    ] = None,
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
    from gradsnap.collection.side_table import SideTable

    started = time.monotonic()
    _check_arguments(paths, out, add, replace)
    beside = None if metadata is None else SideTable(metadata)
    job = Job(paths, out, root, skip_bad, workers, network_from)
    if add:
        facts = _added(job, replace, beside)
    else:
        options = {"num_lists": lists, "residual": residual}
        facts = _built(job, (coder, bits), (kind, keep_half, options), beside)
    facts |= {"seconds": round(time.monotonic() - started, 2), "folder": str(out)}
    say(f"index of {paths[-1]}", facts, as_json=as_json, quiet=quiet)


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


def _check_arguments(paths: list[str], out: Path, add: bool, replace: bool) -> None:
    from gradsnap.cli.checks import check_place
    from gradsnap.errors import InputError

    if len(paths) > 2:
        raise InputError(f"expected [MODEL] SOURCE, got {len(paths)} paths")
    if replace and not add:
        raise InputError("--replace is for --add: a new index knows no items yet")
    if out.exists() and not add:
        raise InputError(f"{out} exists already: name another folder, or give --add")
    if not add:
        check_place(out)


def _built(
    job: Job,
    new_coder: tuple[str, int | None],
    layout: tuple[str, bool | None, dict[str, Any]],
    beside: "SideTable | None",
) -> dict[str, Any]:
    """Makes a new index, and says what it holds."""
    from gradsnap.collection.adding import fill
    from gradsnap.collection.files import add_root
    from gradsnap.errors import FileFormatError

    model, dataset = job.model(), job.open()
    kind, keep_half, options = layout
    own_model = model is None and dataset.holds_images
    try:
        model, stream = _modelled(job, dataset, model, new_coder)
        half = own_model if keep_half is None else keep_half
        made = _new_index(model, stream, kind, half, options)
        add_root(made, dataset)
        kept = OWN_MODEL if own_model else model.folder and str(model.folder.resolve())
        if kept:
            made.notes["model"] = kept
        made = fill(made, stream, job.out, beside)
    except FileFormatError:
        if not own_model or job.skip_bad or job.out.exists():
            raise
        return _built(job._replace(skip_bad=True), new_coder, layout, beside)
    if own_model:
        model.save(job.out / OWN_MODEL)
    return _facts(made, stream.dataset, job.out)


def _modelled(
    job: Job,
    dataset: "Dataset",
    model: "Model | None",
    new_coder: tuple[str, int | None],
) -> "tuple[Model, EmbeddingStream]":
    """The model of the items and their embeddings: given, pretrained, or none."""
    from torch import nn

    from gradsnap.coders import CODERS
    from gradsnap.collection.pretrained import BITS, pretrained_model
    from gradsnap.inference.model import Model
    from gradsnap.registry import chosen

    kind, bits = new_coder
    if model is not None:
        return model, model.stream(model.prepared(dataset), job.workers)
    if dataset.holds_images:
        return pretrained_model(dataset, kind, bits or BITS, job.workers)
    length = dataset.item_shape[0]
    made = chosen(CODERS, kind, "coder").of_bits(length, bits or VECTOR_BITS)
    model = Model(nn.Identity(), made)
    return model, model.stream(dataset, job.workers)


def _added(job: Job, replace: bool, beside: "SideTable | None") -> dict[str, Any]:
    """Adds to the index that is there; says what it holds."""
    from gradsnap.collection.adding import fill, new_items
    from gradsnap.index import load_index
    from gradsnap.inference.model import model_of

    made = load_index(job.out)
    dataset = job.open()
    model = job.model()
    if model is not None:
        model.check_index(made)
    elif dataset.holds_images:
        model = model_of(made, network_from=job.network_from)
    new, known = new_items(made, dataset)
    if replace and known:
        made.remove(known)
        new = dataset
    if new is None:
        made.save(job.out)
    elif model is None:  # vectors alone are added by the index's own coder
        made = fill(made, _plain_stream(new, job.workers), job.out, beside)
    else:
        made = fill(
            made, model.stream(model.prepared(new), job.workers), job.out, beside
        )
    what = "replaced" if replace else "known_already"
    return _facts(made, dataset, job.out) | {what: len(known)}


def _plain_stream(dataset: "Dataset", workers: int) -> "EmbeddingStream":
    from torch import nn

    from gradsnap.inference.embedding import EmbeddingStream

    return EmbeddingStream(dataset, nn.Identity(), workers)


def _facts(made: "Index", dataset: "Dataset", out: Path) -> dict[str, Any]:
    files = (file for file in out.rglob("*") if file.is_file())
    return {
        "items": len(made),
        "kind": made.kind,
        "coder": type(made.coder).__name__,
        "bits": made.coder.bits,
        "bytes_on_disk": sum(file.stat().st_size for file in files),
        "skipped": len(dataset.skipped),
        "ignored": dataset.ignored,
    }


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
