"""Values of metadata as JSON holds them: no NaN, no dates, no bytes."""

import math
from typing import Any

LONGEST_TEXT = 2000
LONGEST_LIST = 64


def plain(value: Any) -> Any:
    """The value as JSON can hold it.

    Example:
        >>> import datetime
        >>> plain([1, float("nan"), datetime.date(2024, 5, 1), b"abc"])
        [1, None, '2024-05-01', '3 bytes']
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, list | tuple):
        return [plain(one) for one in value[:LONGEST_LIST]]
    if isinstance(value, dict):
        return plain_row(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of metadata by its columns, without those that hold nothing."""
    made = {str(name): plain(value) for name, value in row.items()}
    return {name: value for name, value in made.items() if value is not None}
