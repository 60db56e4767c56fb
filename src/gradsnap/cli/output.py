"""What verbs print: a small table for people, JSON for programs."""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

UNBOUNDED = 100_000
"""Columns of what is no terminal: no line is cut or broken."""


def say(title: str, facts: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Prints facts by name: as a table with a title, or as one JSON object."""
    if as_json:
        sys.stdout.write(json.dumps(facts, indent=2, default=str) + "\n")
    if as_json or quiet:
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(readable(title)), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), Text(readable(_as_text(value))))
    console().print(table)


def console(columns: int | None = UNBOUNDED) -> "Console":
    """For standard output, as wide as the terminal.

    Args:
        columns: of what is no terminal; None leaves them to rich.
    """
    from rich.console import Console

    class Telling(Console):
        """A console that does not end the program itself where nobody reads."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else columns
    return Telling(width=width, markup=False)  # names of files may look like markup


def readable(text: str) -> str:
    """The text with what cannot be printed escaped, line by line."""
    from gradsnap.strings import shown

    return "\n".join(map(shown, text.split("\n")))


def as_facts(figures: Mapping[str, float], name: str, title: str) -> dict[str, Any]:
    """Figures of floats and codes by what people call them, the one that counts first.

    Example:
        >>> as_facts({"float_map": 0.9, "code_map": 0.8, "code_auc": 0.7}, "map", "MAP")
        {'MAP of floats': 0.9, 'MAP of codes': 0.8, 'auc of codes': 0.7, \
'relative quantization error': 'none'}
    """
    first = {
        f"{title} of {kind}s": figures.get(f"{kind}_{name}", "not measured")
        for kind in ("float", "code")
    }
    others = {
        f"{_spoken(other)} of {kind}s": value
        for (kind, other), value in _parted(figures)
        if other != name
    }
    error = {"relative quantization error": figures.get("relative_error", "none")}
    return first | others | error


def _spoken(name: str) -> str:
    """A figure's name as people write it.

    >>> _spoken("recall_at_100"), _spoken("partner_map")
    ('recall@100', 'partner map')
    """
    return name.replace("_at_", "@").replace("_", " ")


def _parted(
    figures: Mapping[str, float],
) -> Iterator[tuple[tuple[str, str], float]]:
    for name, value in figures.items():
        kind, _, other = name.partition("_")
        if kind in ("float", "code"):
            yield (kind, other), value


def _as_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
