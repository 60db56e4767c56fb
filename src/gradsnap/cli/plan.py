"""``gradsnap plan``: machines, hours and bytes for a large collection."""

from typing import Annotated

import typer

from gradsnap.cli.options import AsJson, Quiet

EXAMPLES = """
Examples:

`gradsnap plan --items 1e9 --bits 64 --qps 1000`

`gradsnap plan --items 1e8 --probed 0.02 --keep-half --dim 192 --hours 8`

`gradsnap plan --items 1e9 --rate images=900 --rate codes=3e8` – rates of your machine
"""


def plan(
    *,
    items: Annotated[float, typer.Option(help="Images, or vectors with --vectors.")],
    bits: Annotated[int, typer.Option(help="Length of a code.")] = 64,
    dim: Annotated[int, typer.Option(help="Length of an embedding.")] = 128,
    qps: Annotated[float, typer.Option(help="Queries a second.")] = 100.0,
    probed: Annotated[
        float, typer.Option(help="Share of the codes a query looks at: probes / lists.")
    ] = 1.0,
    hours: Annotated[float, typer.Option(help="In which all is encoded.")] = 24.0,
    cores: Annotated[int, typer.Option(help="Of a machine.")] = 32,
    latency: Annotated[
        float, typer.Option(help="Seconds the scan of a query may take.", min=0.001)
    ] = 0.1,
    keep_half: Annotated[
        bool, typer.Option("--keep-half", help="Keep float16 embeddings too.")
    ] = False,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Items are vectors, not images.")
    ] = False,
    rate: Annotated[
        list[str] | None,
        typer.Option(help="A rate of your own, NAME=NUMBER; may be repeated."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Says what a large collection takes, by rates that were measured on one core.

    The formulas, and where the rates come from, are in docs/scale.md.
    """
    from gradsnap.cli.output import say
    from gradsnap.scale.planning import Wish, planned
    from gradsnap.scale.rates import Rates, with_changes

    wish = Wish(items, bits, dim, qps, probed, hours, cores, keep_half, vectors)
    known = with_changes(Rates(), rate or [])
    made = planned(wish, known, latency)
    facts = made._asdict() if as_json else _told(made._asdict())
    title = f"{items:,.0f} {'vectors' if vectors else 'images'} by {bits} bits"
    say(title, facts, as_json=as_json, quiet=quiet)


def _told(facts: dict[str, float]) -> dict[str, str]:
    """Numbers with their units, as people read them."""
    return {name: _cell(name, value) for name, value in facts.items()}


def _cell(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return _bytes(value)
    if name.endswith("_seconds"):
        return f"{1000 * value:,.1f} ms"
    if name.endswith("_hours"):
        return f"{value:,.2f}"
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000:
            return f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} PB"
