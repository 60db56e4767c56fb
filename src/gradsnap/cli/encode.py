"""``gradsnap encode``: codes of a whole data set, in one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradsnap.cli.options import AsJson, Quiet, Root, SkipBad, Workers

if TYPE_CHECKING:
    from gradsnap.coders.quantizers import Quantizer
    from gradsnap.inference.streams import EmbeddingStream

EXAMPLES = """
Examples:

`gradsnap encode model photos/ --out codes.npy`

`gradsnap encode quantizer.safetensors vectors.fvecs --out codes.npy`
"""


def encode(
    model: Annotated[str, typer.Argument(help="A model folder or a quantizer file.")],
    source: Annotated[str, typer.Argument(help="Images or vectors, or a name.")],
    *,
    out: Annotated[Path, typer.Option(help="The .npy file to write.")],
    root: Root = None,
    skip_bad: SkipBad = False,
    workers: Workers = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Writes the codes of all items, (n, num_codebooks), in the order of the items.

    Codes are written as they are made, so that memory does not grow with their number.
    """
    from gradsnap.cli.output import say
    from gradsnap.cli.sources import network_for, open_coder, open_items
    from gradsnap.inference.streams import EmbeddingStream

    coder = open_coder(model)
    dataset = open_items(source, root, coder.model, skip_bad)
    stream = EmbeddingStream(dataset, network_for(dataset, coder.model), workers)
    _write(stream, coder.quantizer, out)
    facts = {
        "items": len(dataset),
        "bits": coder.quantizer.bits,
        "bytes": out.stat().st_size,
        "skipped": len(dataset.skipped),
        "file": str(out),
    }
    say(f"codes of {dataset.name}", facts, as_json=as_json, quiet=quiet)


def _write(stream: "EmbeddingStream", quantizer: "Quantizer", out: Path) -> None:
    import numpy as np
    import torch

    from gradsnap.errors import InputError
    from gradsnap.files import replacing

    kind = np.uint8 if quantizer.code_dtype == torch.uint8 else np.int32
    shape = (len(stream), quantizer.num_codebooks)
    try:
        with replacing(out) as temporary:
            codes = np.lib.format.open_memmap(temporary, "w+", kind, shape)
            for block, rows in stream.blocks("encoding"):
                codes[block[0] : block[-1] + 1] = quantizer.encode(rows).numpy()
            codes.flush()
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}") from error
