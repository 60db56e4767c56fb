"""From TOML and ``key=value`` to a checked configuration, and back to TOML."""

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from gradsnap.errors import InputError
from gradsnap.methods import METHODS
from gradsnap.training.config import TrainingConfig
from gradsnap.training.former import FORMER, renamed_settings

Table = dict[str, Any]


def read_toml(path: str | os.PathLike[str]) -> Table:
    """The tables of a TOML file.

    Raises:
        InputError: there is no such file, or it is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also numbers of 5,000 digits
        raise InputError(f"{os.fspath(path)} is not TOML: {error}") from error


def make_config(
    settings: Mapping[str, Any] | None = None, overrides: Iterable[str] = ()
) -> TrainingConfig:
    """A configuration of tables, changed by ``section.key=value`` in order.

    The method's own choices come first, so that whatever is given here wins.

    Args:
        settings: tables by section, as ``read_toml`` gives them.
        overrides: such as ``"run.steps=500"``; a value is read as TOML, and as a plain
            string where it is not.

    Raises:
        InputError: an unknown key, or a value that cannot be; the message has the
            choices.

    Example:
        >>> config = make_config({"coder": {"bits": 24}}, ["run.steps=500"])
        >>> config.coder.bits, config.run.steps
        (24, 500)
    """
    tables: Table = json.loads(json.dumps(settings or {}, default=str))
    for override in overrides:
        _override(tables, override)
    if not FORMER.isdisjoint(tables):
        tables = renamed_settings(tables)
    chosen = _table(tables, "method").get("name", TrainingConfig().method.name)
    complete = tables
    if isinstance(chosen, str) and chosen in METHODS:  # else it is refused below
        recipe = _still_fitting(METHODS[chosen].tables(chosen), tables)
        complete = _merge(recipe, tables)
    try:
        config = TrainingConfig.model_validate(complete)
    except ValidationError as error:
        raise InputError(_sentence(error)) from error
    for name in type(config).model_fields:  # set: given here, not by a method
        getattr(config, name).model_fields_set.intersection_update(tables.get(name, {}))
    return config


def changed(config: TrainingConfig, **sections: Mapping[str, Any]) -> TrainingConfig:
    """The same configuration with some fields replaced, checked again."""
    return make_config(_merge(to_tables(config), sections))


def to_tables(config: TrainingConfig) -> Table:
    """The configuration as plain tables; fields that are None are left out."""
    return config.model_dump(mode="json", exclude_none=True)


def to_toml(config: TrainingConfig) -> str:
    """The configuration as TOML, each field under its documentation."""
    lines = []
    for section in type(config).model_fields:
        values: BaseModel = getattr(config, section)
        lines += [f"[{section}]  # {(type(values).__doc__ or '').splitlines()[0]}"]
        for name, field in type(values).model_fields.items():
            value = getattr(values, name)
            shown = f"# {name}: " if value is None else f"{name} = {literal(value)}  # "
            lines.append(f"{shown}{field.description}")
        lines.append("")
    return "\n".join(lines)


def differing(one: TrainingConfig, other: TrainingConfig) -> list[str]:
    """The keys whose values differ, as ``section.key: 1 is not 2``."""
    first, second = to_tables(one), to_tables(other)
    keys = [(s, k) for s in first for k in {**first[s], **second[s]}]
    pairs = [(s, k, first[s].get(k), second[s].get(k)) for s, k in keys]
    return [f"{s}.{k}: {a!r} is not {b!r}" for s, k, a, b in pairs if a != b]


def literal(value: Any) -> str:
    """The value as TOML writes it.

    Ours, because no library writes a comment behind each value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(one) for one in value)}]"
    pairs = (
        f"{json.dumps(key)} = {literal(one)}"
        for key, one in value.items()
        if one is not None  # which TOML cannot say
    )
    return f"{{{', '.join(pairs)}}}"


def _override(tables: Table, override: str) -> None:
    key, equals, text = override.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or len(path) < 2 or not all(path):
        raise InputError(
            f"expected section.key=value, such as run.steps=500, got {override!r}"
        )
    table = tables
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise InputError(f"{override!r}: {part} is a value, not a table")
    table[path[-1]] = _parse(text.strip())


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, or a number of 5,000 digits
        return text


def _table(tables: Table, name: str) -> Table:
    found = tables.get(name, {})
    return found if isinstance(found, dict) else {}


def _still_fitting(recipe: Table, given: Table) -> Table:
    """The recipe without the options of parts that are replaced by others."""
    kept = {name: dict(values) for name, values in recipe.items()}
    for section, values in kept.items():
        for key in ("name", "kind"):
            own, other = values.get(key), _table(given, section).get(key)
            if None not in (own, other) and own != other:
                values.pop("options", None)
                values.pop("first", None)
    return kept


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> Table:
    """Both tables' sections, the second's values over the first's."""
    merged: Table = {name: dict(values) for name, values in first.items()}
    for name, values in second.items():
        known = merged.get(name)
        both = isinstance(known, dict) and isinstance(values, Mapping)
        merged[name] = {**known, **values} if both and known is not None else values
    return merged


def _sentence(error: ValidationError) -> str:
    """The first thing that is wrong, with the value and the choices."""
    first = error.errors()[0]
    *path, last = (str(part) for part in first["loc"])
    key, given = ".".join([*path, last]), first.get("input")
    if first["type"] == "extra_forbidden":
        return _unknown(last, path)
    words = WORDS.get(first["type"])
    if words is None:
        return f"{key} {first['msg'].removeprefix('Value error, ')}"
    return f"{key} must be {words.format(**first.get('ctx', {}))}, got {given!r}"


WORDS = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "dict_type": "a table",
    "model_type": "a table of settings",
    "tuple_type": "a list",
    "finite_number": "finite",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
"""What pydantic found, in words that name what can be."""


def _unknown(key: str, path: list[str]) -> str:
    kind = TrainingConfig.model_fields[path[0]].annotation if path else TrainingConfig
    known = list(getattr(kind, "model_fields", {}))
    near = difflib.get_close_matches(key, known, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else "."
    what = f"setting of {path[0]}" if path else "section"
    return f"unknown {what} {key!r}{meant} There are {', '.join(known)}"
