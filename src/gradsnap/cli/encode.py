"""``gradsnap encode``: codes of a whole data set, in one file or in a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Engine, NetworkFrom, On, Quiet, Root, SkipBad

if TYPE_CHECKING:
    from gradsnap.coders import Coder
    from gradsnap.data import Dataset
    from gradsnap.inference.embedding import EmbeddingStream

NAMES = ".names.json"
"""What is added to the name of a file of codes for the list of its images."""

EXAMPLES = """
Examples:

`gradsnap encode model photos/ --out codes.npy`

`gradsnap encode coder.safetensors vectors.fvecs --out codes.npy`

`gradsnap encode model photos/ --out photos.lance` – a table; go on after a crash

`gradsnap encode model s3://b/photos --keep-half --out s3://b/p.lance --on ray`
"""


def encode(
    model: Annotated[str, typer.Argument(help="A model folder or a coder's file.")],
    source: Annotated[str, typer.Argument(help="Images or vectors, or a name.")],
    *,
    out: Annotated[
        str, typer.Option(help="The .npy file or the .lance table to write.")
    ],
    on: On = None,
    keep_half: Annotated[
        bool,
        typer.Option("--keep-half", help="Of a table: keep float16 embeddings too."),
    ] = False,
    add: Annotated[
        bool,
        typer.Option("--add", help="Of a table: add what it does not have yet."),
    ] = False,
    shard_rows: Annotated[
        int,
        typer.Option(
            help="Of a table: rows that are read, written and tried again together.",
            min=1,
        ),
    ] = 4096,
    root: Root = None,
    skip_bad: SkipBad = False,
    workers: Annotated[
        int,
        typer.Option(help="Processes that decode images; with --on, workers in all."),
    ] = 0,
    engine: Engine = "auto",
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Writes the codes of all items, (n, num_codebooks), in the order of the items.

    The names of images are written beside, a JSON list in the same order. Codes are
    written as they are made, so that memory does not grow with their number.

    A table (.lance) has rows of id, code and metadata; the same command goes on where
    it was stopped, and bad images are listed in TABLE.errors.lance. It is read from a
    folder of images, Parquet or tar files, a .lance table or .npy vectors, here or at
    an address such as s3://bucket/folder.
    """
    from gradsnap.cli.encode_table import check_options, encode_table
    from gradsnap.cli.output import say
    from gradsnap.errors import InputError
    from gradsnap.inference.engines import preferring
    from gradsnap.scale.kinds import is_table

    if on and engine != "auto":
        raise InputError("--engine is for this process: workers of --on have their own")
    if is_table(out):
        asked = (on, workers or None, keep_half, add, root, network_from, shard_rows)
        with preferring(engine):
            facts = encode_table(model, source, out, asked, quiet=quiet)
        say(f"codes of {source}", facts, as_json=as_json, quiet=quiet)
        return
    check_options(out, on=on, keep_half=keep_half, add=add)
    file = Path(out)
    asked_file = (root, skip_bad, workers, network_from)
    with preferring(engine):
        facts = _encode_file(model, source, file, asked_file)
    say(f"codes of {source}", facts, as_json=as_json, quiet=quiet)


def _encode_file(
    model: str,
    source: str,
    out: Path,
    asked: tuple[str | None, bool, int, str | None],
) -> dict[str, Any]:
    """Writes codes to one file; says what it holds."""
    from gradsnap.cli.checks import check_place
    from gradsnap.inference.model import load

    root, skip_bad, workers, network_from = asked
    check_place(out)
    opened = load(model, network_from)
    dataset = opened.open(source, root, skip_bad=skip_bad, labelled=False)
    _write(opened.stream(dataset, workers), opened.coder, out)
    return {
        "items": len(dataset),
        "bits": opened.coder.bits,
        "bytes": out.stat().st_size,
        "skipped": len(dataset.skipped),
        "ignored": dataset.ignored,
        "file": str(out),
        **_write_names(dataset, out),
    }


def _write_names(dataset: "Dataset", out: Path) -> dict[str, str]:
    """Writes which image each row is, beside the codes; vectors are known by number."""
    import json

    from gradsnap.files import write_text

    if not dataset.holds_images:
        return {}
    beside = Path(f"{out}{NAMES}")
    write_text(beside, json.dumps(list(dataset.names), indent=0) + "\n")
    return {"names": str(beside)}


def _write(stream: "EmbeddingStream", coder: "Coder", out: Path) -> None:
    from gradsnap.npy import write_rows

    blocks = stream.blocks("encoding")
    write_rows(out, (coder.encode(rows).numpy() for _, rows in blocks), len(stream))
