"""``gradsnap info``: what a folder is, from which data, and how it scored."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet

EXAMPLES = """
Examples:

`gradsnap info model`

`gradsnap info photos.index --json`
"""


def info(
    path: Annotated[
        Path, typer.Argument(help="A model folder, an index folder or a .lance table.")
    ],
    *,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prints what a model or an index is."""
    from gradsnap.cli.output import say
    from gradsnap.errors import InputError
    from gradsnap.scale.kinds import is_table

    if is_table(path):
        say(f"table {path}", _table(str(path)), as_json=as_json, quiet=quiet)
    elif (path / "manifest.json").is_file():
        say(f"index {path}", _index(path), as_json=as_json, quiet=quiet)
    elif (path / "config.toml").is_file() or (path / "weights.safetensors").is_file():
        say(f"model {path}", _model(path, network_from), as_json=as_json, quiet=quiet)
    else:
        raise InputError(
            f"{path} is neither a model folder, an index folder nor a .lance table"
        )


def _index(path: Path) -> dict[str, Any]:
    from gradsnap.collection.sources import unfinished
    from gradsnap.index import load_index

    opened = load_index(path)
    begun = unfinished(opened)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {
        "kind": opened.kind,
        "items": len(opened),
        "ids": "strings" if opened.items.named else "numbers",
        "lists": opened.num_lists or "none",
        "coder": str(opened.coder).replace("\n", " "),
        "bytes_on_disk": size,
        "bytes_an_item": size / max(len(opened), 1),
        "codebooks": (opened.fingerprint or "")[:12],
        "model": opened.notes.get("model", "none"),
        "folders": ", ".join(one.folder for one in opened.roots.by_name.values()),
        "columns": ", ".join(opened.columns),
    } | ({} if begun is None else {"unfinished": f"{begun}: index it again"})


def _table(address: str) -> dict[str, Any]:
    from gradsnap.scale.error_table import read_errors
    from gradsnap.scale.lance_index import stored_lists
    from gradsnap.scale.table import CodeTable

    opened = CodeTable(address)
    lists = stored_lists(opened)
    return {
        "items": len(opened),
        "ids": "strings" if opened.named else "numbers",
        "coder": str(opened.coder).replace("\n", " "),
        "codebooks": opened.facts.fingerprint[:12],
        "embeddings": "half precision" if opened.has_embeddings else "none",
        "index": "none" if lists is None else f"{len(lists.centroids):,} lists",
        "version": opened.dataset.version,
        "fragments": len(opened.dataset.get_fragments()),
        "bad": len(read_errors(address)),
        "model": opened.facts.model or "none",
        "source": opened.facts.source,
        "columns": ", ".join(opened.metadata_columns),
    }


def _model(path: Path, network_from: str | None) -> dict[str, Any]:
    from gradsnap.inference.model import load

    model = load(path, network_from)
    card, name = model.card, model.spec.name or network_from
    weights = sum(value.numel() for value in model.network.parameters())
    return {
        "data": f"{card.get('data')}, {card.get('items', 0):,} items",
        "protocol": str(card.get("protocol", {}).get("name")),
        "network": f"{name}, {weights:,} weights",
        "dim": model.coder.dim,
        "method": card.get("method", "snapping"),
        "loss": card.get("loss", ""),
        "layer": card.get("layer", ""),
        "coder": str(model.coder).replace("\n", " "),
        "fingerprint": model.coder.fingerprint()[:12],
        "step": f"{card.get('step')} of {card.get('steps')}",
        **card.get("figures", {}),
        "rules": card.get("rules", ""),
        "finished": card.get("finished", ""),
    }
