"""``gradsnap index``: a folder that can be searched, of images or vectors."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import (
    AsJson,
    Engine,
    NetworkFrom,
    On,
    Quiet,
    Root,
    SkipBad,
    Workers,
)

if TYPE_CHECKING:
    from gradsnap.cli.index_job import Job
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

`gradsnap index photos/ --engine openvino-bf16 --out photos.index` – twice as fast

`gradsnap index vectors.npy --bits 64 --kind inverted --lists 1024 --out v.index`
– codebooks are learned from the vectors

`gradsnap index vectors.npy --coder itq --bits 64 --out v.index` – hashes

`gradsnap index photos.lance --on ray` – in a table, with its own codebooks

`gradsnap index photos.lance --shards 8 --out big.index --on ray`
"""

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
    out: Annotated[
        Path | None,
        typer.Option(
            help="The index folder to write; of a .lance table: none, for an index "
            "in the table."
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Of a table: so many index folders in --out.", min=1),
    ] = None,
    on: On = None,
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
    engine: Engine = "auto",
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Builds an index folder of images or vectors, or adds to one.

    Items of a folder are found by their path, rows of a file by their number. Memory
    does not grow with the number of items.

    Of a table that encode wrote: an index in the table itself, with the codebooks that
    made its codes, of what is not indexed yet; or, with --out and --shards, index
    folders of its codes.
    """
    from gradsnap.cli.index_job import Job, checked_folder
    from gradsnap.cli.index_table import index_of_table
    from gradsnap.cli.output import say
    from gradsnap.collection.side_table import SideTable
    from gradsnap.inference.engines import preferring
    from gradsnap.scale.kinds import is_table

    started = time.monotonic()
    if len(paths) == 1 and is_table(paths[0]):
        given = {"--add": add, "--metadata": metadata, "--keep-half": keep_half}
        facts = index_of_table(
            paths[0], out, (kind, lists, residual, shards), (on, workers), given
        )
        facts["seconds"] = round(time.monotonic() - started, 2)
        say(f"index of {paths[0]}", facts, as_json=as_json, quiet=quiet)
        return
    out = checked_folder(paths, out, add, replace, shards or on)
    beside = None if metadata is None else SideTable(metadata)
    job = Job(paths, out, root, skip_bad, workers, network_from)
    options = {"num_lists": lists, "residual": residual}
    with preferring(engine):
        facts = (
            _added(job, replace, beside)
            if add
            else _built(job, (coder, bits), (kind, keep_half, options), beside)
        )
    facts |= {"seconds": round(time.monotonic() - started, 2), "folder": str(out)}
    say(f"index of {paths[-1]}", facts, as_json=as_json, quiet=quiet)


def _built(
    job: "Job",
    new_coder: tuple[str, int | None],
    layout: tuple[str, bool | None, dict[str, Any]],
    beside: "SideTable | None",
) -> dict[str, Any]:
    """Makes a new index, or goes on with one; says what it holds."""
    from gradsnap.cli.index_job import begun_index
    from gradsnap.collection.building import modelled, new_index
    from gradsnap.collection.files import add_root
    from gradsnap.errors import FileFormatError

    model, dataset = job.model(), job.open()
    kind, keep_half, options = layout
    own_model = model is None and dataset.holds_images
    begun = begun_index(job.out) if job.out.exists() else None
    try:
        model, stream = modelled(dataset, model, new_coder, job.workers)
        if begun is not None and _is_of(begun, job.out, dataset, kind, model):
            return _finished(job, begun, dataset, (model, own_model), beside)
        half = own_model if keep_half is None else keep_half
        made = new_index(model, stream, kind, half, options)
        add_root(made, dataset)
        kept = OWN_MODEL if own_model else model.folder and str(model.folder.resolve())
        if kept:
            made.notes["model"] = kept
        return _finished(job, made, dataset, (model, own_model), beside, stream)
    except FileFormatError:
        if not own_model or job.skip_bad or job.out.exists():
            raise
        return _built(job._replace(skip_bad=True), new_coder, layout, beside)


def _is_of(
    begun: "Index", out: Path, dataset: "Dataset", kind: str, model: "Model"
) -> bool:
    """Whether a build that was stopped is this one; codes of others start over."""
    import shutil

    from gradsnap.collection.sources import source_of, unfinished
    from gradsnap.errors import InputError

    known = unfinished(begun)
    if known is None or known.source != source_of(dataset) or begun.kind != kind:
        raise InputError(
            f"{out} holds {known} of another build that was stopped: give the command "
            "it was begun with, and it goes on; or remove it"
        )
    if not model.coder.fitted or begun.fingerprint == model.coder.fingerprint():
        return True
    shutil.rmtree(out)
    return False


def _finished(
    job: "Job",
    made: "Index",
    dataset: "Dataset",
    model: "tuple[Model, bool]",
    beside: "SideTable | None",
    stream: "EmbeddingStream | None" = None,
) -> dict[str, Any]:
    """Adds what is missing, then the index's own model, and notes that all is there."""
    from gradsnap.collection.adding import fill, new_items
    from gradsnap.collection.building import stream_for
    from gradsnap.collection.sources import mark_finished, source_of

    own, keeps = model
    if stream is None:
        rest = new_items(made, dataset).dataset
        stream = None if rest is None else stream_for(rest, own, job.workers)
    source = source_of(dataset)
    if stream is not None:
        made = fill(made, stream, job.out, beside, source=source, last=not keeps)
    if keeps:
        own.save(job.out / OWN_MODEL)
    if keeps or stream is None:
        mark_finished(made, source)
        made.save(job.out)
    return _facts(made, dataset, job.out)


def _added(job: "Job", replace: bool, beside: "SideTable | None") -> dict[str, Any]:
    """Adds to the index that is there; says what it holds."""
    from gradsnap.collection.adding import fill, new_items
    from gradsnap.collection.building import stream_for
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
    before = len(made)
    if new is None:
        made.save(job.out)
    else:
        made = fill(made, stream_for(new, model, job.workers), job.out, beside)
    same = len(known) if known else len(dataset) - (len(made) - before)
    what = "replaced" if replace else "known_already"
    return _facts(made, dataset, job.out) | {what: same}


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
