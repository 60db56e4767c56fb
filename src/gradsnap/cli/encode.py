"""``gradsnap encode``: codes of a whole data set, in one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet, Root, SkipBad, Workers

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
"""


def encode(
    model: Annotated[str, typer.Argument(help="A model folder or a coder's file.")],
    source: Annotated[str, typer.Argument(help="Images or vectors, or a name.")],
    *,
    out: Annotated[Path, typer.Option(help="The .npy file to write.")],
    root: Root = None,
    skip_bad: SkipBad = False,
    workers: Workers = 0,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Writes the codes of all items, (n, num_codebooks), in the order of the items.

    The names of images are written beside, a JSON list in the same order. Codes are
    written as they are made, so that memory does not grow with their number.
    """
    from gradsnap.cli.checks import check_place
    from gradsnap.cli.output import say
    from gradsnap.inference.model import load

    check_place(out)
    opened = load(model, network_from)
    dataset = opened.open(source, root, skip_bad=skip_bad, labelled=False)
    _write(opened.stream(dataset, workers), opened.coder, out)
    facts = {
        "items": len(dataset),
        "bits": opened.coder.bits,
        "bytes": out.stat().st_size,
        "skipped": len(dataset.skipped),
        "ignored": dataset.ignored,
        "file": str(out),
        **_write_names(dataset, out),
    }
    say(f"codes of {dataset.name}", facts, as_json=as_json, quiet=quiet)


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
