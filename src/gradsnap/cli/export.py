"""``gradsnap export``: for FAISS, Lance and ONNX Runtime."""

from pathlib import Path
from typing import Annotated

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet

EXAMPLES = """
Examples:

`gradsnap export photos.index --to faiss --out photos.faiss`

`gradsnap export model --to onnx --out encoder.onnx`

`gradsnap export model --to lance --source photos/ --out photos.lance`
"""


def export(
    path: Annotated[Path, typer.Argument(help="A model folder or an index folder.")],
    *,
    to: Annotated[str, typer.Option(help="faiss, lance or onnx.")],
    out: Annotated[Path, typer.Option(help="What to write.")],
    source: Annotated[
        str | None, typer.Option(help="For lance: the items, whose vectors it keeps.")
    ] = None,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Writes what other programs open, with these very codebooks and codes.

    faiss: an index folder as a FAISS file. onnx: a model's encoder, images or vectors
    in, codes out. lance: a table of the items' vectors with an index of our codebooks.
    """
    from gradsnap.cli.checks import check_place
    from gradsnap.cli.output import say
    from gradsnap.errors import InputError

    ways = {"faiss": _faiss, "onnx": _onnx, "lance": _lance}
    if to not in ways:
        raise InputError(f"--to cannot be {to!r}; choose from {', '.join(ways)}")
    if out.exists():
        raise InputError(f"{out} exists already: name another place")
    check_place(out)
    ways[to](path, out, source, network_from)
    facts = {"format": to, "from": str(path), "written to": str(out)}
    beside = Path(f"{out}.names.json")
    if to == "faiss" and beside.is_file():
        facts["names of its ids"] = str(beside)
    say(f"export of {path}", facts, as_json=as_json, quiet=quiet)


def _faiss(path: Path, out: Path, source: str | None, network_from: str | None) -> None:
    from gradsnap.export import write_faiss
    from gradsnap.index import load_index

    write_faiss(load_index(path), out)


def _onnx(path: Path, out: Path, source: str | None, network_from: str | None) -> None:
    """Images go in as floats from 0 to 1 of the network's own size."""
    import torch
    from torch import nn

    from gradsnap.export import write_onnx
    from gradsnap.inference.model import load
    from gradsnap.networks import Preprocess

    model = load(path, network_from)
    if isinstance(model.network, nn.Identity):
        write_onnx(model.coder, out)
        return
    ready = getattr(model.network, "preprocess", nn.Identity())
    shape: tuple[int, ...] = (getattr(model.network, "input_dim", 0),)
    if isinstance(ready, Preprocess):
        shape = (len(ready.mean), ready.side, ready.side)
    whole = nn.Sequential(ready, model.network).eval()
    write_onnx(model.coder, out, whole, torch.rand(2, *shape))


def _lance(path: Path, out: Path, source: str | None, network_from: str | None) -> None:
    from gradsnap.errors import InputError
    from gradsnap.export import write_lance
    from gradsnap.inference.model import load

    if source is None:
        raise InputError("a Lance table keeps vectors: name the items with --source")
    model = load(path, network_from)
    dataset = model.open(source, labelled=False)
    rows = model.embed(dataset)
    write_lance(rows, model.coder, out, [str(name) for name in dataset.names])
