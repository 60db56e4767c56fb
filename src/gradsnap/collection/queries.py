"""What is looked for: images, files of vectors, items of the index, standard input."""

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gradsnap.collection.facts import checksum_of
from gradsnap.data.folders import is_image
from gradsnap.data.images import ImageFiles, image_formats
from gradsnap.errors import FileFormatError, InputError
from gradsnap.index import HalfPrecision, Index, SearchResult
from gradsnap.inference.model import Model
from gradsnap.reading import reading

NUMPY = b"\x93NUMPY"


class Query(NamedTuple):
    """One thing to look for."""

    name: str
    vector: Tensor | None = None
    """(dim,), or None for an item of the index."""
    item: int | str | None = None
    path: Path | None = None
    """The image, where it lies in a file."""
    checksum: str | None = None
    """Of the image's bytes."""


Standard = Callable[[], bytes]
Results = list[tuple[int | str, float]]
"""Ids and distances."""


def read_queries(
    words: Sequence[str], model: Model, standard_input: Standard
) -> Iterator[Query]:
    """Queries by images, folders, files of vectors, and ``-`` for standard input.

    Standard input holds an image, vectors as ``.npy``, or paths, one a line.

    Raises:
        InputError: nothing is there, or there is no model to embed images.
        FileFormatError: a file cannot be read.
    """
    for word in words:
        if word == "-":
            yield from _from_bytes(standard_input(), model)
        elif is_image(word):
            yield _image(Path(word), model)
        else:
            yield from _several(word, model)


def together(queries: Sequence[Query], index: Index) -> Query:
    """One query for all: the mean of their vectors.

    Σᵢ ‖x − qᵢ‖² = n ‖x − mean‖² + what does not depend on x: ranks by the mean are
    ranks by the sum of squared distances.
    """
    rows = [_vector(one, index) for one in queries]
    name = " + ".join(one.name for one in queries)
    return Query(name, torch.stack(rows).mean(dim=0))


def search(
    index: Index,
    queries: Sequence[Query],
    k: int,
    where: str | None = None,
    rerank: int | None = None,
) -> list[Results]:
    """For each query ids and distances of the k nearest, nearest first.

    A file that is the very one asked for, byte for byte, is at distance 0.

    Args:
        index: to search.
        queries: what for.
        k: how many results of each.
        where: a condition that results must fulfil.
        rerank: as of ``Index.search``.
    """
    found: list[Results] = [[] for _ in queries]
    vectors = [place for place, one in enumerate(queries) if one.vector is not None]
    items = [place for place, one in enumerate(queries) if one.vector is None]
    if vectors:
        rows = [queries[place].vector for place in vectors]
        result = index.search(torch.stack(rows), k, None, rerank, where=where)  # type: ignore[arg-type]
        _put(found, vectors, result)
    if items:
        ids: Any = [queries[place].item for place in items]
        _put(found, items, index.search_items(ids, k, None, rerank, where=where))
    if "checksum" in index.columns:
        for place, one in enumerate(queries):
            if one.checksum is not None:
                found[place] = _with_twins(index, one, found[place], k, where)
    return found


def _put(found: list[Results], places: Sequence[int], result: SearchResult) -> None:
    ids = result.ids if isinstance(result.ids, list) else result.ids.tolist()
    for place, row, far in zip(places, ids, result.distances.tolist(), strict=True):
        pairs = zip(row, far, strict=True)
        found[place] = [pair for pair in pairs if pair[0] not in (-1, None)]


def _with_twins(
    index: Index, query: Query, results: Results, k: int, where: str | None
) -> Results:
    """The results, what has the very bytes of the query first and at distance 0."""
    same = f'checksum = "{query.checksum}"'
    own = index.select(same if where is None else f"({where}) and {same}")
    twins = [one if isinstance(one, str) else int(one) for one in own]
    others = [(one, far) for one, far in results if one not in twins]
    return [*((one, 0.0) for one in twins), *others][:k]


def _image(path: Path, model: Model) -> Query:
    if model.folder is None:
        raise InputError(
            f"{path} is an image, and the index knows no model to embed it: name one "
            "with --model"
        )
    row = model.embed(model.decode_image(path))[0]
    return Query(os.fspath(path), row, path=path, checksum=checksum_of(path))


def _several(word: str, model: Model) -> Iterator[Query]:
    """The images of a folder that can be decoded, or the rows of a file."""
    dataset = model.open(word, labelled=False)
    try:
        vectors = model.embed(dataset)
    except FileFormatError:
        dataset = model.open(word, labelled=False, skip_bad=True)
        vectors = model.embed(dataset)
    items = dataset.items
    for row, vector in enumerate(vectors):
        name = dataset.names[row]
        if isinstance(items, ImageFiles):
            path = Path(items.root) / name
            yield Query(os.fspath(path), vector, None, path, checksum_of(path))
        else:
            yield Query(name, vector)


def _from_bytes(data: bytes, model: Model) -> Iterator[Query]:
    if data.startswith(NUMPY):
        for row, vector in enumerate(_vectors(data)):
            yield Query(f"standard input, row {row}", vector)
    elif _is_image(data):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            query = _image(Path(file.name), model)
        yield query._replace(name="standard input", path=None)
    else:
        paths = os.fsdecode(data).splitlines()
        words = [line for line in paths if line.strip() and line != "-"]
        if not words:
            raise InputError(
                "standard input is empty: expected an image, vectors as .npy, or paths"
            )
        yield from read_queries(words, model, bytes)


def _vectors(data: bytes) -> Tensor:
    with reading("standard input", "a .npy of vectors"):
        rows = np.load(io.BytesIO(data), allow_pickle=False)
        return torch.from_numpy(np.atleast_2d(rows).astype(np.float32))


def _is_image(data: bytes) -> bool:
    try:
        with Image.open(io.BytesIO(data), formats=image_formats()):
            return True
    except Exception:  # whatever it is, it is no image
        return False


def _vector(query: Query, index: Index) -> Tensor:
    """The vector of a query; of an item what the index keeps of it."""
    if query.vector is not None:
        return query.vector
    ids: Any = [query.item]
    return vectors_of(index, ids)[0]


def vectors_of(index: Index, ids: Any) -> Tensor:
    """What an index keeps of items, (n, dim): half-precision, else reconstructions.

    Raises:
        InputError: an id is not in the index, or its codes stand for no vectors.
    """
    from gradsnap.index.segments import checked_ids

    if not isinstance(index.refiner, HalfPrecision):
        return index.reconstruct(ids).float().cpu()
    places = index.items.places(checked_ids(ids))
    kept = index.items.fine_rows(places, index.refiner.row_bytes)
    return torch.from_numpy(kept.view(np.float16).astype(np.float32))
