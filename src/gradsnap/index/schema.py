"""What a manifest may say: checked before any file of an index is mapped.

A checksum tells that a file is as it was written, not that its writer meant well. So
every name, type and shape is compared with what the index itself would have written.
"""

from pathlib import Path
from typing import Any, NamedTuple

from gradsnap.coders.packing import bytes_of
from gradsnap.errors import FileFormatError
from gradsnap.index.index import Index

Manifest = dict[str, Any]
Entry = dict[str, Any]

MOST = 2**63 - 1
"""No number of a manifest is larger."""

NUMBERS = ("uint32", "int64")


class Rule(NamedTuple):
    """What a column must be."""

    types: tuple[str, ...]
    tail: tuple[int, ...] = ()
    """Its shape behind the rows."""
    rows: int | None = None
    """How many rows; None for any number."""


FIELDS = {
    "token": str,
    "generation": int,
    "kind": str,
    "config": dict,
    "next_id": int,
    "segments": list,
    "files": dict,
    "parts": dict,
    "fingerprint": str | None,
    "refiner": str | None,
}


def check_manifest(path: Path, content: Manifest) -> None:
    """Refuses a manifest whose fields are not what they should be.

    Raises:
        FileFormatError: a field is missing or of another type, a file lies elsewhere,
            a part is not listed with a checksum.
    """
    for field, kind in FIELDS.items():
        if field not in content or not isinstance(content[field], kind):
            raise FileFormatError(f"{path} lacks {field!r}")
    _check_words(path, "notes", content.get("notes", {}))  # which older folders lack
    _check_words(path, "blocks", content.get("blocks", {}))
    if not _is_number(content["next_id"]):
        raise FileFormatError(f"{path}: its next id is {content['next_id']!r}")
    for name, entry in content["files"].items():
        known = isinstance(entry, dict) and _is_number(entry.get("bytes"))
        if not known or Path(name).name != name or "\0" in name:
            raise FileFormatError(f"{path} names a file {name!r} as {entry!r}")
    for name, file in content["parts"].items():
        _check_listed(path.parent, content, file, f"its {name}")


def _check_words(path: Path, what: str, words: Any) -> None:
    """Words by name, nothing else."""
    known = isinstance(words, dict) and all(isinstance(w, str) for w in words.values())
    if not known:
        raise FileFormatError(f"{path}: its {what} are {words!r}")


def check_segment(folder: Path, content: Manifest, entry: Any, index: Index) -> None:
    """Refuses a segment's entry that this index would not have written.

    Raises:
        FileFormatError: says what does not fit.
    """
    _check_numbers(folder, entry)
    columns = entry["columns"]
    rules, needed = column_rules(index, entry["items"])
    given = set(columns)
    if not needed <= given <= set(rules) or ("text" in given) != ("ends" in given):
        raise FileFormatError(
            f"{folder}: a segment has the columns {', '.join(sorted(given))}; "
            f"expected {', '.join(sorted(needed))}"
        )
    for name, column in columns.items():
        _check_column(folder, content, name, column, rules[name])
    if "removed" in entry:
        _check_column(folder, content, "removed", entry["removed"], Rule(NUMBERS))
    if "metadata" in entry:
        _check_listed(folder, content, entry["metadata"], "its metadata")


def _check_numbers(folder: Path, entry: Any) -> None:
    if not isinstance(entry, dict) or not isinstance(entry.get("columns"), dict):
        raise FileFormatError(f"{folder}: a segment without columns")
    for word in ("items", "first"):
        if not _is_number(entry.get(word)):
            raise FileFormatError(f"{folder}: a segment whose {word} is not a number")
    if entry["first"] + entry["items"] > MOST:
        raise FileFormatError(f"{folder}: ids of a segment lie above 2**63")


def column_rules(index: Index, items: int) -> tuple[dict[str, Rule], set[str]]:
    """The columns a segment of an index may have, and those it must have."""
    coder = index.items.coder
    width = bytes_of(coder.num_codebooks, coder.codebook_size)
    rules = {
        "codes": Rule(("uint8",), (width,), items),
        "ids": Rule(NUMBERS, rows=items),
        "text": Rule(("uint8",)),
        "ends": Rule(("uint64",), rows=items),
    }
    needed = {"codes"}
    if index.num_lists is not None:
        rules["bounds"] = Rule(NUMBERS, rows=index.num_lists + 1)
        needed.add("bounds")
    if index.refiner is not None:
        rules["fine"] = Rule(("uint8",), (index.refiner.row_bytes,), items)
        needed.add("fine")
    return rules, needed


def _check_column(
    folder: Path, content: Manifest, name: str, column: Any, rule: Rule
) -> None:
    if not isinstance(column, list) or len(column) != 3:
        raise FileFormatError(f"{folder}: the column {name} is said to be {column!r}")
    file, dtype, shape = column
    _check_listed(folder, content, file, f"the column {name}")
    rows = shape[0] if isinstance(shape, list) and shape else None
    expected = [rows if rule.rows is None else rule.rows, *rule.tail]
    if not _is_number(rows) or shape != expected or dtype not in rule.types:
        raise FileFormatError(
            f"{folder / file} is said to hold {shape} of {dtype!r}; expected "
            f"{[rule.rows or 'any', *rule.tail]} of {' or '.join(rule.types)}"
        )


def _check_listed(folder: Path, content: Manifest, file: Any, what: str) -> None:
    """A file beside the manifest that is listed with its size and checksum."""
    if not isinstance(file, str) or file not in content["files"]:
        raise FileFormatError(f"{folder}: {what} is {file!r}, which is not listed")


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST
