"""What verbs print: a small table for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping
from typing import Any


def say(title: str, facts: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Prints facts by name: as a table with a title, or as one JSON object."""
    if quiet:
        return
    if as_json:
        sys.stdout.write(json.dumps(facts, indent=2, default=str) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _as_text(value))
    Console().print(table)


def _as_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
