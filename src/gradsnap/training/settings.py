"""From TOML and ``key=value`` to a checked configuration, and back to TOML."""

import dataclasses
import difflib
import json
import math
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gradsnap.errors import InputError
from gradsnap.training.config import TrainingConfig

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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{os.fspath(path)} is not TOML: {error}") from error


def make_config(
    settings: Mapping[str, Any] | None = None, overrides: Iterable[str] = ()
) -> TrainingConfig:
    """A configuration of tables, changed by ``section.key=value`` in order.

    Args:
        settings: tables by section, as ``read_toml`` gives them.
        overrides: such as ``"run.steps=500"``; a value is read as TOML, and as a plain
            string where it is not.

    Raises:
        InputError: an unknown key, or a value that cannot be; the message has the
            choices.

    Example:
        >>> config = make_config({"quantizer": {"bits": 24}}, ["run.steps=500"])
        >>> config.quantizer.bits, config.run.steps
        (24, 500)
    """
    tables: Table = json.loads(json.dumps(settings or {}, default=str))
    for override in overrides:
        _override(tables, override)
    sections = {field.name: field for field in dataclasses.fields(TrainingConfig)}
    _refuse_unknown(tables, sections, "section")
    hints = typing.get_type_hints(TrainingConfig)
    return TrainingConfig(
        **{name: _section(name, hints[name], tables[name]) for name in tables}
    )


def changed(config: TrainingConfig, **sections: Mapping[str, Any]) -> TrainingConfig:
    """The same configuration with some fields replaced, checked again."""
    tables = to_tables(config)
    for name, fields in sections.items():
        tables[name] |= fields
    return make_config(tables)


def to_tables(config: TrainingConfig) -> Table:
    """The configuration as plain tables; fields that are None are left out."""
    return {
        name: {key: value for key, value in section.items() if value is not None}
        for name, section in dataclasses.asdict(config).items()
    }


def to_toml(config: TrainingConfig) -> str:
    """The configuration as TOML, each field under its documentation."""
    lines = []
    for section in dataclasses.fields(config):
        values = getattr(config, section.name)
        lines += [f"[{section.name}]  # {_summary(values)}"]
        for field in dataclasses.fields(values):
            value = getattr(values, field.name)
            about = field.metadata["about"]
            shown = "" if value is None else f"{field.name} = {_literal(value)}  "
            lines.append(
                f"{shown}# {field.name + ': ' if value is None else ''}{about}"
            )
        lines.append("")
    return "\n".join(lines)


def differing(one: TrainingConfig, other: TrainingConfig) -> list[str]:
    """The keys whose values differ, as ``section.key: 1 is not 2``."""
    first, second = to_tables(one), to_tables(other)
    keys = [(s, k) for s in first for k in {**first[s], **second[s]}]
    pairs = [(s, k, first[s].get(k), second[s].get(k)) for s, k in keys]
    return [f"{s}.{k}: {a!r} is not {b!r}" for s, k, a, b in pairs if a != b]


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
    table[path[-1]] = _parsed(text.strip())


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _section(name: str, kind: type, table: Any) -> Any:
    if not isinstance(table, dict):
        raise InputError(f"{name} must be a table of settings, got {table!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    _refuse_unknown(table, fields, f"setting of {name}")
    hints = typing.get_type_hints(kind)
    values = {}
    for key, value in table.items():
        converted = _converted(f"{name}.{key}", value, hints[key])
        _check_limits(f"{name}.{key}", converted, fields[key].metadata)
        values[key] = converted
    return kind(**values)


def _refuse_unknown(
    table: Mapping[str, Any], known: Mapping[str, Any], what: str
) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"unknown {what} {key!r}{meant} There are {', '.join(known)}"
            )


def _converted(key: str, value: Any, hint: Any) -> Any:
    """The value as the field's type, where nothing is lost; refused otherwise."""
    wanted = _plain_type(hint)
    if value is None and wanted is not hint:
        return None
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if typing.get_origin(wanted) is tuple:
        return _as_tuple(key, value, typing.get_args(wanted)[0])
    kind = typing.get_origin(wanted) or wanted
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"{key} must be {_described(kind)}, got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{key} must be finite, got {value}")
    return value


def _plain_type(hint: Any) -> Any:
    """The type itself of ``X | None``."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(one for one in typing.get_args(hint) if one is not type(None))
    return hint


def _as_tuple(key: str, value: Any, entry: type) -> tuple[Any, ...]:
    if isinstance(value, str):  # flip,crop from a command line
        value = [part for part in value.split(",") if part]
    if not isinstance(value, list | tuple):
        raise InputError(f"{key} must be a list, got {value!r}")
    return tuple(_converted(f"{key}[{i}]", one, entry) for i, one in enumerate(value))


def _check_limits(key: str, value: Any, limits: Mapping[str, Any]) -> None:
    choices, least, most = limits["choices"], limits["least"], limits["most"]
    if choices is not None and value is not None:
        for one in value if isinstance(value, tuple) else (value,):
            if one not in choices:
                raise InputError(
                    f"{key} cannot be {one!r}; choose from {', '.join(choices)}"
                )
    if isinstance(value, int | float) and not isinstance(value, bool):
        below, above = least is not None and value < least, most is not None
        if below or (above and value > most):
            upper = f" and at most {most:g}" if most is not None else ""
            lower = -math.inf if least is None else least
            raise InputError(f"{key} must be at least {lower:g}{upper}, got {value}")


def _described(kind: type) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "a text",
        dict: "a table",
    }
    return names.get(kind, kind.__name__)


def _summary(values: Any) -> str:
    return (type(values).__doc__ or "").splitlines()[0]


def _literal(value: Any) -> str:
    """The value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(one) for one in value)}]"
    pairs = (f"{json.dumps(key)} = {_literal(one)}" for key, one in value.items())
    return f"{{{', '.join(pairs)}}}"
