"""``gradsnap encode``: codes of a whole data set, in one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet, Root, SkipBad, Workers

if TYPE_CHECKING:
    from gradsnap.coders import Coder
    from gradsnap.inference.embedding import EmbeddingStream

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

    Codes are written as they are made, so that memory does not grow with their number.
    """
    from gradsnap.cli.output import say
    from gradsnap.inference.model import load

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
    }
    say(f"codes of {dataset.name}", facts, as_json=as_json, quiet=quiet)


def _write(stream: "EmbeddingStream", coder: "Coder", out: Path) -> None:
    from gradsnap.npy import write_rows

    blocks = stream.blocks("encoding")
    write_rows(out, (coder.encode(rows).numpy() for _, rows in blocks), len(stream))
