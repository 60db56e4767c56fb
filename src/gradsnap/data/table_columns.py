"""Which column of a table of others is the id, which the item, which are metadata."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradsnap.data.parquet import VECTOR_COLUMNS, as_matrix
from gradsnap.errors import GradsnapError, InputError
from gradsnap.reading import reading

ID_COLUMNS = ("id", "key", "name", "path")
IMAGE_COLUMNS = ("image", "bytes", "jpg", "png", "webp", "content")
OWN = ("shard", "code", "embedding")
"""Columns of a table of codes; those of a source by such a name are left out."""


class Columns(NamedTuple):
    """What the columns of a table mean."""

    id: str | None
    """None where rows are known by file and number."""
    item: str
    images: bool
    metadata: tuple[str, ...]

    @property
    def read(self) -> list[str]:
        """All columns that are read."""
        return [*([self.id] if self.id else []), self.item, *self.metadata]

    def schema(self, given: Any) -> Any:
        """Types of ``id`` and of the metadata."""
        import pyarrow as arrow

        kinds = [("id", id_type(given.field(self.id).type) if self.id else text_type())]
        return arrow.schema([*kinds, *(given.field(name) for name in self.metadata)])


def text_type() -> Any:
    """Pyarrow's type of strings."""
    import pyarrow

    return pyarrow.string()


def id_type(kind: Any) -> Any:
    """Whole numbers stay numbers, all others are strings."""
    import pyarrow as arrow

    return arrow.int64() if arrow.types.is_integer(kind) else arrow.string()


def columns_of(schema: Any, where: str) -> Columns:
    """What the columns of a schema mean, by name and type.

    Raises:
        InputError: none of them holds images or vectors.
    """
    names = schema.names
    vector = next((one for one in VECTOR_COLUMNS if one in names), None)
    image = next((n for n in IMAGE_COLUMNS if n in names and _holds(schema, n)), None)
    item = image or vector
    if item is None:
        raise InputError(
            f"{where} has no column of images ({', '.join(IMAGE_COLUMNS)}, as bytes) "
            f"nor of vectors ({', '.join(VECTOR_COLUMNS)}); it has {', '.join(names)}"
        )
    identity = next((one for one in ID_COLUMNS if one in names), None)
    taken = {item, identity, *OWN}
    more = [n for n in names if n not in taken and _is_plain(schema.field(n).type)]
    return Columns(identity, item, image is not None, tuple(more))


def holds_images(path: str) -> bool:
    """Whether a Parquet file of this machine has a column of images."""
    from pyarrow import parquet

    try:
        with reading(path, "a Parquet file"):
            return columns_of(parquet.read_schema(path), path).images
    except (GradsnapError, OSError):
        return False  # whoever reads it says what is wrong


def _holds(schema: Any, name: str) -> bool:
    """Whether a column holds bytes, or as Hugging Face writes them a struct of them."""
    from pyarrow import types

    kind = schema.field(name).type
    if types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_plain(kind: Any) -> bool:
    """Whether metadata can be of a type: numbers, text, truth, moments."""
    from pyarrow import types

    return any(
        (
            types.is_integer(kind),
            types.is_floating(kind),
            types.is_boolean(kind),
            types.is_string(kind) or types.is_large_string(kind),
            types.is_temporal(kind),
        )
    )


def image_bytes(values: Any) -> list[bytes]:
    """The encoded images of a column; empty where a row has none."""
    from pyarrow import types

    if types.is_struct(values.type):
        values = values.field("bytes")
    return [one or b"" for one in values.to_pylist()]


def vector_rows(values: Any, name: str) -> NDArray[np.float32]:
    """A column of lists of one length as float32 (rows, length)."""
    return as_matrix(values, name).astype(np.float32, copy=False)
