"""What the API says of itself: summaries, bodies and examples for OpenAPI."""

from typing import Any

from pydantic import BaseModel

from gradsnap.serve.asking import BatchRequest, ExplainRequest, NewItem, SearchRequest

INTRODUCTION = (
    "Search images and vectors by their codes. Where the server has a token, send it "
    'as `Authorization: Bearer TOKEN`. Errors are `{"error": "a sentence"}`; 429 '
    "means that too many queries wait: try again after `Retry-After` seconds."
)

BINARY = {"schema": {"type": "string", "format": "binary"}}

FOUND = {
    "index": "photos",
    "version": 3,
    "items": 1165,
    "milliseconds": {"search": 0.41, "embedding": 12.9, "whole": 14.2},
    "together": 1,
    "results": [
        {
            "id": "cats/3.jpg",
            "distance": 0.1834,
            "metadata": {"label": "cat"},
            "thumbnail": "/thumbnails/cats%2F3.jpg?index=photos",
        }
    ],
}


def _words(
    summary: str,
    tag: str,
    answer: Any,
    body: dict[str, Any] | None = None,
    status: int = 200,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Arguments of a route that describe it."""
    extra: dict[str, Any] = {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": body}
    if parameters is not None:
        extra["parameters"] = parameters
    content = {"application/json": {"example": answer}}
    shown = {status: {"description": "Done", "content": content}}
    return {
        "summary": summary,
        "tags": [tag],
        "responses": shown,
        "status_code": status,
        "openapi_extra": extra,
    }


def _json(model: type[BaseModel], **examples: Any) -> dict[str, Any]:
    """A JSON body of a model, with examples by name."""
    shown = {name: {"value": value} for name, value in examples.items()}
    return {
        "application/json": {"schema": model.model_json_schema(), "examples": shown}
    }


def _parameter(name: str, where: str, words: str, example: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": words,
        "schema": {"type": "string"},
        "example": example,
    }


ID = _parameter("id", "path", "The item's id, percent-encoded.", "cats/3.jpg")
NAME = _parameter("name", "path", "The index's name.", "photos")
OF = _parameter("index", "query", "The index's name; the first if none.", "photos")
SIZE = _parameter("size", "query", "Longest side: 128, 256, 512 or 1600.", "256")
COUNT = _parameter("count", "query", "How many, up to 100.", "1")
WHERE = _parameter("where", "query", "A condition on metadata.", 'label = "cat"')

SEARCH = _words(
    "The nearest items of a picture, a vector or an item",
    "search",
    FOUND,
    {
        **_json(
            SearchRequest,
            item={"id": "cats/3.jpg", "k": 10},
            filtered={"id": "cats/3.jpg", "where": 'label = "dog" and year > 2020'},
            vector={"vector": [0.1, -0.2, 0.3], "k": 5, "probe": 8, "rerank": False},
        ),
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {
                    "image": {"type": "string", "format": "binary"},
                    "k": {"type": "integer"},
                },
            }
        },
        "image/jpeg": BINARY,
        "application/octet-stream": BINARY,
    },
)
BATCH = _words(
    "The nearest items of several vectors or items",
    "search",
    {"index": "photos", "version": 3, "results": [FOUND["results"]]},
    {
        **_json(
            BatchRequest,
            vectors={"vectors": [[0.1, -0.2], [0.0, 0.4]], "k": 10},
            items={"ids": ["cats/3.jpg", "dogs/1.jpg"], "k": 10},
        ),
        "application/octet-stream": BINARY,
    },
)
EXPLAIN = _words(
    "What an item's code says: its codewords' shares of the distance to a query",
    "search",
    {"code": [12, 201], "parts": [0.11, 0.07], "rest": 0.0, "list": None},
    _json(ExplainRequest, items={"item": "cats/4.jpg", "id": "cats/3.jpg"}),
)
ITEM = _words(
    "What the index knows of an item",
    "items",
    {"id": "cats/3.jpg", "metadata": {"label": "cat"}, "code": [12, 201]},
    parameters=[ID, OF],
)
THUMBNAIL = _words(
    "A small picture of an item", "items", None, parameters=[ID, OF, SIZE]
)
RANDOM = _words(
    "Items drawn at random",
    "items",
    {"id": "cats/3.jpg", "ids": ["cats/3.jpg"]},
    parameters=[OF, WHERE, COUNT],
)
ADD = _words(
    "Adds an item and saves; with --writable",
    "items",
    {"id": "cats/9.jpg", "version": 4},
    {
        **_json(
            NewItem,
            vector={"id": "a", "vector": [0.1, -0.2], "metadata": {"label": "cat"}},
        ),
        "multipart/form-data": {"schema": {"type": "object"}},
    },
    status=201,
)
REMOVE = _words(
    "Removes an item and saves; with --writable",
    "items",
    {"id": "cats/9.jpg", "version": 5},
    parameters=[ID, OF],
)
INDEXES = _words("The indexes", "indexes", {"indexes": [{"name": "photos"}]})
INDEX = _words(
    "What an index is", "indexes", {"name": "photos", "items": 1165}, parameters=[NAME]
)
FACETS = _words(
    "What an index can be filtered by",
    "indexes",
    {"facets": [{"column": "label", "kind": "values", "values": []}]},
    parameters=[NAME],
)
HEALTH = _words("Whether the process answers", "server", {"status": "ok"})
READY = _words("Whether the indexes are open", "server", {"ready": True})
METRICS = _words("Figures for Prometheus", "server", None)
SESSION = _words("A cookie for a browser that shows the token", "server", {})
