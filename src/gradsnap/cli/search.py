"""``gradsnap search``: the nearest items of an image, of vectors, or of an item."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Quiet

if TYPE_CHECKING:
    from torch import Tensor

    from gradsnap.inference.model import Model

EXAMPLES = """
Examples:

`gradsnap search photos.index query.jpg`

`gradsnap search photos.index --id cats/3.jpg -k 5 --json`

`gradsnap search v.index queries.npy -k 100 --probes 32 --json`
"""


def search(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    query: Annotated[
        str | None,
        typer.Argument(help="An image, a folder of images, or a file of vectors."),
    ] = None,
    *,
    item: Annotated[
        str | None, typer.Option("--id", help="Search by an item of the index.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Results of each query.")] = 10,
    model: Annotated[
        str | None, typer.Option(help="The model folder, if it was moved.")
    ] = None,
    probes: Annotated[
        int | None, typer.Option(help="Lists to look into, of an index with lists.")
    ] = None,
    rerank: Annotated[
        int | None, typer.Option(help="How many to compare again, with --keep-half.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prints the nearest items, nearest first, with what the index knows of them."""
    from gradsnap.errors import InputError
    from gradsnap.index import load_index

    if (query is None) == (item is None):
        raise InputError("name a query, or an item of the index with --id; not both")
    opened = load_index(index)
    if probes is not None:
        _set_probes(opened, probes)
    if item is not None:
        rows, names = _vector_of(opened, item), [item]
    else:
        rows, names = _embedded(opened, query or "", model, index)
    found = opened.search(rows, k, rerank=rerank)
    results = [
        {"query": name, "results": _results(opened, *pair)}
        for name, *pair in zip(names, found.ids, found.distances, strict=True)
    ]
    if quiet:
        return
    if as_json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
    else:
        _show(results)


def _set_probes(opened: Any, probes: int) -> None:
    from gradsnap.errors import InputError

    if not hasattr(opened, "probes"):
        raise InputError(f"--probes is for an index with lists; this is {opened.kind}")
    opened.probes = probes


def _vector_of(opened: Any, item: str) -> "Tensor":
    """What the codes say the vector of an item is, (1, dim)."""
    from gradsnap.errors import InputError

    if not opened.items.named and not item.isdecimal():
        raise InputError(f"the ids of this index are numbers, got --id {item!r}")
    rows: Tensor = opened.reconstruct([item if opened.items.named else int(item)])
    return rows


def _embedded(
    opened: Any, query: str, model: str | None, folder: Path
) -> "tuple[Tensor, list[str]]":
    from gradsnap.cli.sources import open_query

    return open_query(query, _model(opened, model, folder))


def _model(opened: Any, given: str | None, folder: Path) -> "Model | None":
    """The model the index was made with, its codebooks compared."""
    from gradsnap.errors import InputError
    from gradsnap.index import load_index
    from gradsnap.inference.model import load

    path = given or opened.notes.get("model")
    if path is None:
        return None
    if given is None and not Path(path).is_dir():
        raise InputError(
            f"the model of {folder} is not at {path} any more: name it with --model"
        )
    found = load(path)
    load_index(folder, found.quantizer)  # refuses other codebooks
    return found


def _results(opened: Any, ids: Any, distances: "Tensor") -> list[dict[str, Any]]:
    whole = ids if isinstance(ids, list) else ids.tolist()
    pairs = zip(whole, distances.tolist(), strict=True)
    kept = [(one, distance) for one, distance in pairs if one not in (-1, None)]
    words = opened.metadata([one for one, _ in kept]) if kept else []
    return [
        {"id": one, "distance": distance, **word}
        for (one, distance), word in zip(kept, words, strict=True)
    ]


def _show(results: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    for one in results:
        columns = list(dict.fromkeys(key for row in one["results"] for key in row))
        table = Table(title=f"nearest to {one['query']}", title_justify="left")
        for column in ("rank", *columns):
            table.add_column(column)
        for rank, row in enumerate(one["results"], 1):
            table.add_row(str(rank), *(_cell(row.get(column)) for column in columns))
        Console().print(table)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
