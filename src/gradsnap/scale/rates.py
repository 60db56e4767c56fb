"""What one core does in a second; ``docs/scale.md`` says which were measured."""

from dataclasses import dataclass, fields, replace
from typing import Any

from gradsnap.errors import InputError


@dataclass(frozen=True)
class Rates:
    """Rates of one core, and sizes; each can be given anew for other machines."""

    images: float = 70.0
    """Images a second: read, decoded, embedded by EfficientNet-Lite0 at 128 pixels with
    OpenVINO, encoded and written."""
    vectors: float = 190_000.0
    """Vectors a second that are read, encoded and written: 128-d, 64 bits."""
    indexed: float = 190_000.0
    """Rows a second that Lance puts into its index, 128-d, 8 codebooks of 256."""
    codes: float = 300e6
    """Codes of 64 bits a second that a search compares with a query; longer codes take
    longer in proportion."""
    query: float = 0.002
    """Seconds a query costs a shard before and after it compares codes."""
    row_bytes: float = 48.0
    """Bytes of a table's row beside its code and embedding: id and shard."""
    request_rows: float = 8192.0
    """Rows that a request to an object store reads or writes, in tables."""
    image_bytes: float = 100_000.0
    """Bytes of an image in its file."""


def with_changes(rates: Rates, words: list[str]) -> Rates:
    """Rates with some given anew, as in ``images=900``.

    Raises:
        InputError: there is no such rate, or it is no number above zero.

    Example:
        >>> with_changes(Rates(), ["images=900"]).images
        900.0
    """
    known = [field.name for field in fields(Rates)]
    changes: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if name not in known or not 0 < value < float("inf"):
            raise InputError(
                f"--rate cannot be {word!r}; give NAME=NUMBER above zero, of "
                f"{', '.join(known)}"
            )
        changes[name] = value
    return replace(rates, **changes)
