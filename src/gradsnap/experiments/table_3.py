"""Table 3: every method at every length of code."""

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.paper import table_3 as paper
from gradsnap.experiments.paper.systems import SYSTEMS, system_of
from gradsnap.experiments.plan import Experiment, Plan, Request, chosen_rows
from gradsnap.experiments.results import Axes, Cell
from gradsnap.experiments.rows import CHOICES, Row, map_cells

LENGTHS = (4, 8, *paper.BITS)
"""The paper's, and two where codes are scarce, as later papers have them."""
QUICK_LENGTHS = (4, 8)

AT = (
    "For 4 and 8 bits they are chosen at 8, for longer codes at 32, or at the lengths "
    "nearest to these that are run. Coders on fixed vectors (fixed+…) have their "
    "papers' settings and nothing to choose."
)


def plan(bench: Bench, request: Request) -> Plan:
    """A row for every method and for every coder on fixed vectors."""
    rows = chosen_rows(bench, request)
    lengths = request.bits or (QUICK_LENGTHS if bench.quick else LENGTHS)
    theirs = paper.MAPS.get(bench.source.slug, {})

    def published(system: str, bits: int) -> str:
        figures = dict(zip(paper.BITS, theirs.get(system, ()), strict=False))
        return figures.get(bits, "")

    jobs = []
    for name, contender in rows.items():
        row = Row(bench, name, contender, lengths, map_cells(published))
        jobs += row.jobs()
    met = {system_of(name) for name in rows}
    missing = [
        Cell(f"({system})", f"{bits} bits", (), bits, system, published(system, bits))
        for system in theirs
        if system not in met
        for bits in lengths
    ]
    return Plan(
        jobs,
        Axes("bytes a code", "MAP of codes", doubling=True, divisor=8),
        bench.card(),
        CHOICES + AT,
        [*paper.NOTES, *_stand_in(bench), *_absent(missing)],
        missing,
    )


def _stand_in(bench: Bench) -> list[str]:
    if bench.source.slug in paper.MAPS:
        return []
    return [f"The paper has no figures for {bench.source.title}."]


def _absent(cells: list[Cell]) -> list[str]:
    names = list(dict.fromkeys(cell.system for cell in cells))
    if not names:
        return []
    ours = "; ".join(f"{name}: {', '.join(SYSTEMS[name][:1])}" for name in names)
    return [f"In brackets: systems of the paper that were not run here ({ours})."]


EXPERIMENT = Experiment(
    "table-3",
    "MAP of every method at 4 to 48 bits: CIFAR-10, MNIST or NUS-WIDE",
    paper.LABEL,
    "cifar10",
    plan,
)
