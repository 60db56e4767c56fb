"""Figure 4c: MAP of the first 1,500 against bits on ILSVRC2012, or on a stand-in."""

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.contenders import labelled_methods
from gradsnap.experiments.paper import figures as paper
from gradsnap.experiments.plan import Experiment, Plan, Request, chosen_rows
from gradsnap.experiments.results import Axes
from gradsnap.experiments.rows import CHOICES, Row, map_cells
from gradsnap.experiments.runs import Measures

LENGTHS = (8, 16, 24, 32, 48, 64)
QUICK_LENGTHS = (4, 8)
RIVALS = ("fixed+cq", "fixed+sq")
"""The paper's own rivals there: coders on the pretrained network's outputs."""


def plan(bench: Bench, request: Request) -> Plan:
    """Every trained method, CQ and SQ."""
    rows = chosen_rows(bench, request, (*labelled_methods(), *RIVALS))
    lengths = request.bits or (QUICK_LENGTHS if bench.quick else LENGTHS)
    measures = Measures(length=paper.LENGTH)
    cells = map_cells(lambda system, bits: "")
    jobs = []
    for name, contender in rows.items():
        jobs += Row(bench, name, contender, lengths, cells, measures).jobs()
    told = bench.source.stand_in("ilsvrc2012")
    return Plan(
        jobs,
        Axes("bytes a code", f"MAP@{paper.LENGTH}", doubling=True, divisor=8),
        bench.card(measures),
        CHOICES + "They are chosen at 8 bits for 8, and at 32 for longer codes.",
        [*paper.NOTES, *([told] if told else [])],
    )


EXPERIMENT = Experiment(
    "figure-4c",
    "MAP@1500 against bits, ILSVRC2012 or a stand-in",
    "perf:in",
    "ilsvrc2012",
    plan,
)
