"""What requests say: JSON, forms with a picture, pictures, or bare float32 numbers."""

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from gradsnap.serve.answering import Options
from gradsnap.serve.refusals import Refusal, unreadable

Number = Annotated[float, Field(allow_inf_nan=False)]
ItemId = int | Annotated[str, Field(max_length=4096)]

LONGEST_VECTOR = 65_536
MOST_WITHIN = 100_000
MOST_TOGETHER = 4096
"""Queries of one ``/search/batch``."""


class SearchOptions(BaseModel):
    """How is searched."""

    model_config = ConfigDict(extra="forbid")

    index: str | None = Field(
        None, max_length=256, description="Its name; the first if none."
    )
    k: int = Field(10, ge=1, description="How many results.")
    offset: int = Field(0, ge=0, le=100_000, description="Results to leave out before.")
    where: str | None = Field(
        None, max_length=10_000, description='Such as `label = "cat" and year > 2020`.'
    )
    within: list[ItemId] | None = Field(
        None, max_length=MOST_WITHIN, description="Ids to search among."
    )
    probe: int | None = Field(
        None, ge=1, le=2**31, description="Lists to look into, of an index with lists."
    )
    rerank: bool | int | None = Field(
        None, description="How many to compare again; true as usual, false or 0 none."
    )
    floats: bool = Field(
        False, description="Rank all items by the embeddings the index keeps."
    )
    metadata: bool = Field(True, description="Whether results hold their metadata.")

    def options(self, most: int) -> Options:
        """For the index.

        Raises:
            Refusal: more results are asked for than go.
        """
        k = self.k + self.offset
        if self.k > most or k > 10 * most:
            raise unreadable(
                f"at most {most} results of one request, the last the {10 * most}th"
            )
        return Options(
            k,
            self.probe,
            self._rerank(),
            self.where or None,
            None if self.within is None else tuple(self.within),
            self.floats,
        )

    def _rerank(self) -> int | None:
        if self.rerank is None or self.rerank is True:
            return None
        value = int(self.rerank)
        if not 0 <= value <= 1_000_000:
            raise unreadable(f"rerank must be 0 to 1,000,000, got {value}")
        return value


class SearchRequest(SearchOptions):
    """One query: a vector, an item, or a picture in base64."""

    vector: list[Number] | None = Field(None, max_length=LONGEST_VECTOR)
    id: ItemId | None = None
    image: str | None = Field(None, description="A picture file in base64.")
    embedding: bool = Field(
        False, description="Whether the answer holds the query's own vector."
    )


class BatchRequest(SearchOptions):
    """Several queries of one kind."""

    vectors: list[list[Number]] | None = Field(None, max_length=MOST_TOGETHER)
    ids: list[ItemId] | None = Field(None, max_length=MOST_TOGETHER)


class ExplainRequest(BaseModel):
    """An item, and the query its distance is measured to."""

    model_config = ConfigDict(extra="forbid")

    index: str | None = Field(None, max_length=256)
    item: ItemId
    vector: list[Number] | None = Field(None, max_length=LONGEST_VECTOR)
    id: ItemId | None = None


class NewItem(BaseModel):
    """An item to add: a vector or a picture, and what is known of it."""

    model_config = ConfigDict(extra="forbid")

    index: str | None = Field(None, max_length=256)
    id: ItemId | None = Field(None, description="The next free number if not given.")
    vector: list[Number] | None = Field(None, max_length=LONGEST_VECTOR)
    image: str | None = Field(None, description="A picture file in base64.")
    metadata: dict[str, str | bool | int | Number | None] = Field(
        default_factory=dict, max_length=100
    )


@dataclass(frozen=True)
class Asked:
    """A request read: its fields, and a picture or bare numbers if it held any."""

    fields: Any
    picture: bytes | None = None
    numbers: Any = field(default=None, compare=False)
    """float32 (n,), as sent."""


async def read(request: Request, model: type[BaseModel]) -> Asked:
    """Reads a body by its content type.

    Raises:
        Refusal: it cannot be read.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _form(request, model)
    body = await request.body()
    if kind.startswith("image/"):
        return Asked(_from_query(request, model), picture=body)
    if kind == "application/octet-stream":
        if len(body) % 4:
            raise unreadable("float32 numbers have four bytes each")
        numbers = np.frombuffer(body, dtype="<f4")
        return Asked(_from_query(request, model), numbers=numbers)
    fields = _checked(model, body)
    return Asked(fields, picture=_decoded(getattr(fields, "image", None)))


def _checked(model: type[BaseModel], body: bytes) -> BaseModel:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise unreadable(_sentence(error)) from None
    except (ValueError, RecursionError) as error:
        raise unreadable("the body is no JSON") from error


def _from_query(request: Request, model: type[BaseModel]) -> BaseModel:
    """Fields of the address, for bodies that are a picture or numbers."""
    return _of_texts(model, dict(request.query_params))


def _of_texts(model: type[BaseModel], texts: dict[str, str]) -> BaseModel:
    """Fields given as texts; lists and objects in JSON."""
    given: dict[str, Any] = {}
    for name, text in texts.items():
        given[name] = text
        if name in ("vector", "vectors", "ids", "within", "metadata", "rerank"):
            try:
                given[name] = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise unreadable(f"{name} is no JSON") from error
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise unreadable(_sentence(error)) from None


async def _form(request: Request, model: type[BaseModel]) -> Asked:
    try:
        form = await request.form(max_files=1, max_fields=32)
    except (HTTPException, ValueError) as error:
        raise Refusal(422, "the form cannot be read") from error
    picture, texts = None, dict(request.query_params)
    try:
        for name, value in form.items():
            if not isinstance(value, UploadFile):
                texts[name] = value
            elif name == "image":
                picture = await value.read()
            else:
                raise unreadable(f"a picture is sent as image, got {name[:80]!r}")
    finally:
        await form.close()
    return Asked(_of_texts(model, texts), picture)


def _decoded(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise unreadable("image is no base64") from error


def _sentence(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[
        0
    ]
    where = ".".join(str(part) for part in first["loc"])[:200]
    return f"{where}: {first['msg']}" if where else str(first["msg"])
