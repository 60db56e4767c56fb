"""``POST /search``, ``/search/batch`` and ``/explain``: requests to answers."""

import time
from typing import Any
from urllib.parse import quote

import torch
from starlette.requests import Request
from starlette.responses import Response

from gradsnap.serve.answering import (
    Found,
    Id,
    Options,
    Wanted,
    answers,
    checked_vector,
    item_id,
)
from gradsnap.serve.asking import (
    MOST_TOGETHER,
    Asked,
    BatchRequest,
    ExplainRequest,
    SearchRequest,
    read,
)
from gradsnap.serve.explaining import explain
from gradsnap.serve.json_response import as_json
from gradsnap.serve.opened import Version
from gradsnap.serve.refusals import unreadable
from gradsnap.serve.service import Served, Service


async def search(request: Request) -> Response:
    """The nearest items of a picture, a vector or an item."""
    service: Service = request.app.state.service
    started = time.perf_counter()
    asked = await read(request, SearchRequest)
    fields: SearchRequest = asked.fields
    served = service.named(fields.index)
    options = fields.options(service.settings.most_results)
    wanted, embedding = await _wanted(served, asked, options)
    found = await served.found(wanted)
    own = {"search": round(found.milliseconds, 3)}
    if embedding is not None:
        own["embedding"] = round(embedding, 3)
    own["whole"] = round(1000 * (time.perf_counter() - started), 3)
    answer = {
        "index": served.opened.name,
        "version": found.version.generation,
        "items": len(found.version.index),
        "milliseconds": own,
        "together": found.together,
        "results": rows_of(found, served, fields.offset, fields.metadata),
    }
    if found.missing:
        answer["missing"] = found.missing
    if fields.embedding and wanted.vector is not None:
        answer["vector"] = wanted.vector.tolist()
    return as_json(answer)


async def search_batch(request: Request) -> Response:
    """The nearest items of several vectors or items."""
    service: Service = request.app.state.service
    asked = await read(request, BatchRequest)
    fields: BatchRequest = asked.fields
    served = service.named(fields.index)
    options = fields.options(service.settings.most_results)
    version = served.version
    wanted = _several(version, asked, options)
    found: list[Found] = []
    for start in range(0, len(wanted), service.settings.batch):  # others take turns
        part = wanted[start : start + service.settings.batch]
        found += await served.searching.call(_all, version, part)
    answer: dict[str, Any] = {
        "index": served.opened.name,
        "version": version.generation,
        "results": [_bare(one, fields.offset) for one in found],
    }
    missing = {name: why for one in found for name, why in one.missing.items()}
    return as_json(answer | ({"missing": missing} if missing else {}))


async def explain_item(request: Request) -> Response:
    """An item's code, and what each codeword adds to its distance."""
    service: Service = request.app.state.service
    asked = await read(request, ExplainRequest)
    fields: ExplainRequest = asked.fields
    served = service.named(fields.index)
    index = served.version.index
    vector = None
    if fields.vector is not None:
        vector = checked_vector(index, fields.vector)
    elif asked.picture is not None:
        made = await served.embedded(asked.picture)
        index, vector = made.version.index, made.vector.numpy()
    other = None if fields.id is None else item_id(index, fields.id)
    item = item_id(index, fields.item)
    row = None if vector is None else torch.tensor(vector)
    made_of = await served.searching.call(explain, index, item, row, other)
    return as_json(made_of.as_json())


async def _wanted(
    served: Served, asked: Asked, options: Options
) -> tuple[Wanted, float | None]:
    """The query of a request, and the milliseconds its picture took to embed."""
    fields: SearchRequest = asked.fields
    given = [fields.vector, fields.id, asked.picture, asked.numbers]
    if sum(one is not None for one in given) != 1:
        raise unreadable("send one of vector, id and image")
    index = served.version.index
    if fields.id is not None:
        item = item_id(index, fields.id)
        return Wanted(options, item=item, metadata=fields.metadata), None
    if asked.picture is not None:
        made = await served.embedded(asked.picture)
        row = made.vector.numpy()
        found = Wanted(options, row, None, made.version, fields.metadata)
        return found, made.milliseconds
    numbers = asked.numbers if fields.vector is None else fields.vector
    vector = checked_vector(index, numbers)
    return Wanted(options, vector, metadata=fields.metadata), None


def _several(version: Version, asked: Asked, options: Options) -> list[Wanted]:
    """The queries of a batch."""
    fields: BatchRequest = asked.fields
    index = version.index
    if fields.ids is not None:
        ids = [item_id(index, one) for one in fields.ids]
        return [Wanted(options, item=one, metadata=False) for one in ids]
    rows: list[Any]
    if asked.numbers is not None:
        dim = index.coder.dim
        if len(asked.numbers) % dim:
            raise unreadable(f"a vector of this index has {dim} numbers")
        rows = list(asked.numbers.reshape(-1, dim))
    elif fields.vectors is not None:
        rows = list(fields.vectors)
    else:
        raise unreadable("send one of vectors and ids")
    if len(rows) > MOST_TOGETHER:
        raise unreadable(f"at most {MOST_TOGETHER} queries of one request")
    checked = [checked_vector(index, row) for row in rows]
    return [Wanted(options, row, metadata=False) for row in checked]


def _all(version: Version, wanted: list[Wanted]) -> list[Found]:
    """The answers to all queries; the first that is refused refuses all."""
    found = []
    for answer in answers(version, wanted):
        if isinstance(answer, Exception):
            raise answer
        found.append(answer)
    return found


def rows_of(
    found: Found, served: Served, offset: int, metadata: bool
) -> list[dict[str, Any]]:
    """Results as a response holds them."""
    index = found.version.index
    pictures = bool(index.items.named and index.roots)
    rows = []
    for place in range(offset, len(found.ids)):
        item = found.ids[place]
        row: dict[str, Any] = {"id": item, "distance": found.distances[place]}
        if metadata and found.metadata:
            row["metadata"] = found.metadata[place]
        if pictures:
            row["thumbnail"] = thumbnail_of(served.opened.name, item)
        rows.append(row)
    return rows


def thumbnail_of(name: str, item: Id) -> str:
    """Where the picture of an item is."""
    quoted = quote(str(item), safe="", errors="surrogateescape")
    return f"/thumbnails/{quoted}?index={quote(name, safe='')}"


def _bare(found: Found, offset: int) -> list[dict[str, Any]]:
    pairs = list(zip(found.ids, found.distances, strict=True))[offset:]
    return [{"id": one, "distance": far} for one, far in pairs]
