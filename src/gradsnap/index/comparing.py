"""A column of metadata compared with a value: text, numbers, dates, lists, nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.errors import InputError

Mask = NDArray[np.bool_]

LISTED = ("in",)
FUNCTIONS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
DATE = "%Y-%m-%dT%H:%M:%S"


def missing(column: Any) -> Mask:
    """Where there is no value, bool (n,)."""
    from pyarrow import compute

    return _mask(compute.is_null(column))


def fits(column: Any, sign: str, value: Any, name: str) -> Mask:
    """Where the value of a column stands so to a given one, bool (n,).

    A date is compared by as much of it as is given: ``taken = "2021-05"`` is all of
    May, ``taken > 2020`` what came after that year. Of a list, one entry must be equal.

    Args:
        column: pyarrow, n values.
        sign: a key of ``FUNCTIONS``.
        value: to compare with.
        name: of the column, for the error.

    Raises:
        InputError: the column holds something else than the value is.
    """
    from pyarrow import types

    kind = column.type
    if types.is_null(kind):
        return np.zeros(len(column), dtype=bool)
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_lists(column, lambda flat: fits(flat, "=", value, name), sign, name)
    if types.is_timestamp(kind) or types.is_date(kind):
        return _of_dates(column, sign, _date_text(value, name))
    if types.is_boolean(kind) != isinstance(value, bool):
        raise _unlike(column, value, name)
    number = types.is_integer(kind) or types.is_floating(kind)
    if number == isinstance(value, str) and not types.is_boolean(kind):
        if number or sign not in ("=", "!="):
            raise _unlike(column, value, name)
        value = str(value)  # a class may be called 3
    return _mask(_function(sign)(column, _scalar(value, column)))


def contained(column: Any, values: Sequence[Any], name: str) -> Mask:
    """Where the value of a column is one of several, bool (n,)."""
    masks = [fits(column, "=", value, name) for value in values]
    return np.asarray(np.logical_or.reduce(masks))


def is_like(column: Any, sign: str, text: str, name: str) -> Mask:
    """Where text holds a piece, or is like a pattern of % and _; case is ignored."""
    from pyarrow import compute, types

    kind = column.type
    if types.is_null(kind):
        return np.zeros(len(column), dtype=bool)
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_lists(column, lambda one: is_like(one, sign, text, name), "=", name)
    if types.is_timestamp(kind) or types.is_date(kind):
        column = compute.strftime(column, format=DATE)
    elif not (types.is_string(kind) or types.is_large_string(kind)):
        raise InputError(
            f"{sign} is for text, and {name} holds {_holds(column)}: use =, < or >"
        )
    match = compute.match_like if sign == "like" else compute.match_substring
    return _mask(match(column, text, ignore_case=True))


def _of_lists(column: Any, equals: Callable[[Any], Mask], sign: str, name: str) -> Mask:
    """Lists of which one entry is equal, or for ``!=`` none."""
    from pyarrow import compute

    if sign not in ("=", "!="):
        raise InputError(f"{name} holds lists, which {sign} cannot order: use =")
    parents = compute.list_parent_indices(column).to_numpy(zero_copy_only=False)
    found = np.zeros(len(column), dtype=bool)
    if len(parents):
        found[parents[equals(compute.list_flatten(column))]] = True
    return found if sign == "=" else ~found & ~missing(column)


def _of_dates(column: Any, sign: str, text: str) -> Mask:
    """Dates as ISO text, of which the beginning is compared."""
    from pyarrow import compute

    begins = compute.utf8_slice_codeunits(
        compute.strftime(column, format=DATE), 0, len(text)
    )
    return _mask(_function(sign)(begins, text))


def _date_text(value: Any, name: str) -> str:
    """2020, "2020-05" or "2020-05-01 12:30" as the beginning of an ISO date."""
    text = str(value).strip().replace(" ", "T").removesuffix("Z")
    shape = "".join("d" if letter.isdigit() else letter for letter in text)
    known = "dddd-dd-ddTdd:dd:dd"
    if isinstance(value, bool) or shape not in {known[:n] for n in (4, 7, 10, 16, 19)}:
        raise InputError(
            f'{name} holds dates: compare it with one such as 2020, "2020-05" or '
            f'"2020-05-01 12:30", got {value!r}'
        )
    return text


def _scalar(value: Any, column: Any) -> Any:
    """A value of the column's own kind where that keeps it, for the comparison."""
    import pyarrow

    if isinstance(value, str):
        return pyarrow.scalar(value, type=column.type)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _function(sign: str) -> Callable[..., Any]:
    from pyarrow import compute

    function: Callable[..., Any] = getattr(compute, FUNCTIONS[sign])
    return function


def _unlike(column: Any, value: Any, name: str) -> InputError:
    return InputError(f"{name} holds {_holds(column)}, which {value!r} is not")


def _holds(column: Any) -> str:
    from pyarrow import types

    if types.is_boolean(column.type):
        return "true and false"
    if types.is_integer(column.type) or types.is_floating(column.type):
        return "numbers"
    text = types.is_string(column.type) or types.is_large_string(column.type)
    return "text" if text else f"values of type {column.type}"


def _mask(values: Any) -> Mask:
    """A pyarrow mask as bool (n,), False where nothing is known."""
    filled = values.fill_null(False)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=bool)
