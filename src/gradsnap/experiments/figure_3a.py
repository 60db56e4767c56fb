"""Figure 3a: conformity of gradients, snapping against output regularization."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.contenders import Choice, Contender
from gradsnap.experiments.jobs import Job, Work
from gradsnap.experiments.paper import figures as paper
from gradsnap.experiments.plan import Experiment, Plan, Request
from gradsnap.experiments.results import Axes, Cell

CONTENDERS = (
    Contender(
        "gradient snapping",
        ("method.name=snapping", f"layer.options.neighbors={paper.NEIGHBORS}"),
    ),
    Contender(
        "output regularization",
        ("method.name=snapping", "layer.name=output-regularization"),
    ),
)
EVERY = "run.monitor_every=5"
"""Steps between two records of the conformity."""
QUICK_BITS = 8

NOTES = (
    "Conformity is the cosine between the loss gradient and y − c, c the codeword: "
    "positive where a step down the loss also nears the codeword. Rows whose loss is "
    "settled have no gradient and do not count.",
)


def plan(bench: Bench, request: Request) -> Plan:
    """A histogram of each, over all steps from the warm-up on."""
    (bits, *_) = request.bits or ((QUICK_BITS if bench.quick else paper.BITS),)
    jobs = [_Histogram(bench, one, bits).job() for one in CONTENDERS]
    told = bench.source.stand_in("cifar10")
    return Plan(
        jobs,
        Axes("conformity", "share of rows"),
        bench.card(bits=bits),
        f"Both have the rate {bench.trunk.usual_rate:g} and their default strength.",
        [*NOTES, *paper.NOTES, *([told] if told else [])],
    )


@dataclass(frozen=True)
class _Histogram:
    bench: Bench
    contender: Contender
    bits: int

    def job(self) -> Job:
        name = self.contender.name
        return Job(name, self.bench.seeds, self.work, self.failed)

    def work(self) -> Work:
        own = Contender(self.contender.name, (*self.contender.settings, EVERY))
        choice = Choice(self.bench.trunk.usual_rate)
        runs = yield from self.bench.over_seeds(own, choice, self.bits)
        return cells_of(own.name, [run.conformity for run in runs])

    def failed(self, why: str) -> list[Cell]:
        return [
            Cell(self.contender.name, "conformity", (), None, "", "", {"error": why})
        ]


def cells_of(row: str, histograms: Sequence[Sequence[int]]) -> list[Cell]:
    """The share of rows in each bin of −1 to 1; one value a seed.

    Example:
        >>> [(one.x, one.values) for one in cells_of("a", [[1, 3]])]
        [(-0.5, (0.25,)), (0.5, (0.75,))]
    """
    totals = [sum(one) or 1 for one in histograms]
    bins = min(map(len, histograms), default=0)
    cells = []
    for place in range(bins):
        middle = round(-1 + (2 * place + 1) / bins, 6)
        pairs = zip(histograms, totals, strict=True)
        shares = tuple(counts[place] / total for counts, total in pairs)
        cells.append(Cell(row, f"{middle:g}", shares, middle))
    return cells


EXPERIMENT = Experiment(
    "figure-3a",
    "conformity of gradients: snapping against output regularization, 32 bits",
    "sal:ovg",
    "cifar10",
    plan,
)
