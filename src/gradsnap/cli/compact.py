"""``gradsnap compact``: small files of a table joined, old versions dropped."""

from typing import Annotated

import typer

from gradsnap.cli.options import AsJson, Quiet

EXAMPLES = """
Examples:

`gradsnap compact photos.lance` – fewer, larger files; all versions stay

`gradsnap compact photos.lance --keep-days 14` – older versions are dropped
"""


def compact(
    table: Annotated[str, typer.Argument(help="A .lance table.")],
    *,
    keep_days: Annotated[
        float | None,
        typer.Option(
            help="Drop versions that are older; all stay if not given.", min=0
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Joins the small files of a table, which searches and commits go through."""
    from gradsnap.cli.output import say
    from gradsnap.errors import InputError
    from gradsnap.scale.kinds import is_table
    from gradsnap.scale.table import CodeTable
    from gradsnap.scale.versions import compact_table

    if not is_table(table):
        raise InputError(
            f"{table} is no .lance table; index folders compact themselves"
        )
    done = compact_table(CodeTable(table), keep_days)
    say(f"table {table}", done._asdict(), as_json=as_json, quiet=quiet)
