"""``/items``: what is known of one, its picture, adding and removing."""

import asyncio
import random
from typing import Any

import torch
from starlette.requests import Request
from starlette.responses import Response

from gradsnap.errors import InputError
from gradsnap.index.segments import Segment
from gradsnap.serve.answering import checked_vector, has_metadata, item_id
from gradsnap.serve.asking import NewItem, read
from gradsnap.serve.explaining import explain
from gradsnap.serve.json_response import as_json
from gradsnap.serve.plain import plain_row
from gradsnap.serve.refusals import Refusal, unreadable
from gradsnap.serve.searching import thumbnail_of
from gradsnap.serve.service import Served, Service
from gradsnap.serve.thumbnails import SIZES

MOST_DRAWN = 100


async def item(request: Request) -> Response:
    """What the index knows of an item."""
    served = _served(request)
    index = served.version.index
    found = item_id(index, request.path_params["id"])
    code = await served.searching.call(explain, index, found, None, None)
    known: dict[str, Any] = {"id": found, "metadata": {}, **code.as_json()}
    if has_metadata(index):
        ids: list[Any] = [found]
        known["metadata"] = plain_row(index.metadata(ids)[0])
    if index.items.named and index.roots:
        known["thumbnail"] = thumbnail_of(served.opened.name, found)
    return as_json(known)


async def random_item(request: Request) -> Response:
    """Items drawn at random, among those that fulfil a condition; the first as id."""
    served = _served(request)
    where = request.query_params.get("where") or None
    count = request.query_params.get("count", "1")
    if not (count.isascii() and count.isdecimal() and 1 <= int(count) <= MOST_DRAWN):
        raise unreadable(f"count must be 1 to {MOST_DRAWN}")
    drawn = await served.searching.call(_drawn, served, where, int(count))
    return as_json({"id": drawn[0], "ids": drawn})


async def thumbnail(request: Request) -> Response:
    """A small picture of an item, decoded from a file the index names."""
    service: Service = request.app.state.service
    index = _served(request).version.index
    found = item_id(index, request.path_params["id"])
    size = request.query_params.get("size", "256")
    if size not in map(str, SIZES):
        raise unreadable(f"size is one of {', '.join(map(str, SIZES))}")
    path = index.path_of(found)
    if path is None:
        raise Refusal(404, "this item has no picture")
    made = await service.decoders.call(service.thumbnails.of, path, int(size))
    tag = f'"{made.tag}"'
    headers = {"etag": tag, "cache-control": "private, max-age=3600"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(made.data, media_type=made.kind, headers=headers)


async def add_item(request: Request) -> Response:
    """Adds a vector or a picture, and saves."""
    service: Service = request.app.state.service
    _require_writable(service)
    asked = await read(request, NewItem)
    fields: NewItem = asked.fields
    served = service.named(fields.index)
    _require_folder(served)
    if asked.picture is not None and fields.vector is None:
        vector = (await served.embedded(asked.picture)).vector
    elif fields.vector is not None and asked.picture is None:
        row = checked_vector(served.version.index, fields.vector)
        vector = torch.tensor(row)
    else:
        raise unreadable("send one of vector and image")
    made = await asyncio.to_thread(
        served.writer.add, vector, fields.id, fields.metadata
    )
    served.count()
    return as_json({"id": made, "version": served.version.generation}, 201)


async def remove_item(request: Request) -> Response:
    """Removes an item, and saves."""
    service: Service = request.app.state.service
    _require_writable(service)
    served = _served(request)
    _require_folder(served)
    found = item_id(served.version.index, request.path_params["id"])
    await asyncio.to_thread(served.writer.remove, found)
    served.count()
    return as_json({"id": found, "version": served.version.generation})


def _require_writable(service: Service) -> None:
    if not service.settings.writable:
        raise Refusal(403, "this server only reads: start it with --writable")


def _require_folder(served: Served) -> None:
    if not served.opened.place.writable:
        raise Refusal(
            403,
            "tables and shards are changed by gradsnap encode --add, remove and index",
        )


def _served(request: Request) -> Served:
    service: Service = request.app.state.service
    return service.named(request.query_params.get("index"))


def _drawn(served: Served, where: str | None, count: int) -> list[Any]:
    """Different ids; without a condition no list of a million ids is made."""
    index = served.version.index
    if len(index) == 0:
        raise Refusal(404, "the index is empty")
    if where is None:
        return _anywhere(index.items.segments, min(count, len(index)))
    try:
        ids = index.select(where)
    except InputError as error:
        raise unreadable(str(error)) from error
    if len(ids) == 0:
        raise Refusal(404, "no item fulfils this condition")
    places = random.sample(range(len(ids)), min(count, len(ids)))
    return [
        one if isinstance(one, str) else int(one)
        for one in map(ids.__getitem__, places)
    ]


def _anywhere(segments: list[Segment], count: int) -> list[Any]:
    """Different items of all segments, each as likely as any other."""
    places = random.sample(range(sum(segment.live for segment in segments)), count)
    found: dict[int, Any] = {}
    base = 0
    for segment in segments:
        inside = [place for place in places if base <= place < base + segment.live]
        if inside:
            counted = segment.counted()
            found |= {
                place: _id_at(segment, int(counted[place - base])) for place in inside
            }
        base += segment.live
    return [found[place] for place in places]


def _id_at(segment: Segment, at: int) -> Any:
    if segment.names is not None:
        return segment.names[at]
    return segment.first + at if segment.ids is None else int(segment.ids[at])
