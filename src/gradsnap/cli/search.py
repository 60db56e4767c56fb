"""``gradsnap search``: the nearest items of an image, of vectors, or of an item."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet

if TYPE_CHECKING:
    from torch import Tensor

    from gradsnap.index import Index, SearchResult
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
    where: Annotated[
        str | None,
        typer.Option(
            help='Only what fulfils a condition, such as label = "cat" and year > 2020.'
        ),
    ] = None,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prints the nearest items, nearest first, with what the index knows of them."""
    from gradsnap.errors import InputError
    from gradsnap.index import load_index
    from gradsnap.inference.model import model_of

    if (query is None) == (item is None):
        raise InputError("name a query, or an item of the index with --id; not both")
    opened = load_index(index)
    if probes is not None:
        _set_probes(opened, probes)
    if item is not None:
        names, found = [item], opened.search_items(_ids(opened, item), k, where=where)
    else:
        rows, names = _queries(query or "", model_of(opened, model, network_from))
        found = opened.search(rows, k, rerank=rerank, where=where)
    results = _results(opened, names, found)
    if quiet:
        return
    if as_json:
        sys.stdout.write(json.dumps(results, indent=2, default=str) + "\n")
    else:
        _show(results)


def _set_probes(opened: "Index", probes: int) -> None:
    from gradsnap.errors import InputError

    if opened.num_lists is None:
        raise InputError(f"--probes is for an index with lists; this is {opened.kind}")
    opened.probes = probes  # type: ignore[attr-defined]


def _ids(opened: "Index", item: str) -> list[str] | list[int]:
    from gradsnap.errors import InputError

    if opened.items.named:
        return [item]
    if not item.isdecimal():
        raise InputError(f"the ids of this index are numbers, got --id {item!r}")
    return [int(item)]


def _queries(path: str, model: "Model") -> "tuple[Tensor, list[str]]":
    """Embeddings (q, dim) of an image, a folder or a file of vectors, and their names.

    Raises:
        InputError: an image is asked for, and there is no model to embed it.
    """
    from gradsnap.data.folders import is_image
    from gradsnap.errors import InputError

    if is_image(path):
        if model.folder is None:
            raise InputError(
                f"{path} is an image, and the index knows no model to embed it: name "
                "one with --model"
            )
        return model.embed(model.decode_image(path)), [path]
    dataset = model.open(path, labelled=False)
    names = [dataset.names[place] for place in range(len(dataset))]
    return model.embed(dataset), names


def _results(
    opened: "Index", names: list[str], found: "SearchResult"
) -> list[dict[str, Any]]:
    """For each query its results, with the metadata the index has of them."""
    ids = found.ids if isinstance(found.ids, list) else found.ids.tolist()
    answers = []
    for name, row, distances in zip(names, ids, found.distances.tolist(), strict=True):
        pairs = zip(row, distances, strict=True)
        kept = [(one, far) for one, far in pairs if one not in (-1, None)]
        words = opened.metadata([one for one, _ in kept]) if kept else []
        results = [
            {"id": one, "distance": far, **word}
            for (one, far), word in zip(kept, words, strict=True)
        ]
        answers.append({"query": name, "results": results})
    return answers


def _show(results: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    for one in results:
        columns = list(dict.fromkeys(key for row in one["results"] for key in row))
        title = f"nearest to {escape(one['query'])}"
        table = Table(title=title, title_justify="left")
        for column in ("rank", *columns):
            table.add_column(column)
        for rank, row in enumerate(one["results"], 1):
            table.add_row(str(rank), *(_cell(row.get(column)) for column in columns))
        Console().print(table)


def _cell(value: Any) -> str:
    from rich.markup import escape

    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))
