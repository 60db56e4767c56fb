"""Table 1: five representations, each coded by eight methods."""

import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.cache import name_of
from gradsnap.experiments.contenders import Contender, trained_contenders
from gradsnap.experiments.jobs import Job, Work
from gradsnap.experiments.paper import table_1 as paper
from gradsnap.experiments.plan import Experiment, Plan, Request
from gradsnap.experiments.results import Axes, Cell
from gradsnap.experiments.rows import CHOICES
from gradsnap.experiments.runs import about_run, trained_model
from gradsnap.experiments.shallow import shallow_over_seeds
from gradsnap.experiments.trunks import gist
from gradsnap.experiments.vector_files import vector_file
from gradsnap.training import TrainingConfig

BITS, QUICK_BITS = 32, 8

Files = Generator[str, None, list[Path]]
"""Yields a sentence after each run, and returns a file of vectors for each seed."""


@dataclass(frozen=True)
class Representation:
    """A row of the table.

    Args:
        name: ours.
        system: the paper's name of it.
        runs: how many it takes to make.
        files: makes the vectors of all seeds.
    """

    name: str
    system: str
    runs: int
    files: Callable[[], Files]


def plan(bench: Bench, request: Request) -> Plan:
    """A row for each representation, a column for each method."""
    (bits, *_) = request.bits or ((QUICK_BITS if bench.quick else BITS),)
    columns = request.methods or paper.COLUMNS
    jobs = []
    for one in representations(bench, bits):
        jobs += _Row(bench, one, bits, columns).jobs()
    told = bench.source.stand_in("cifar10")
    return Plan(
        jobs,
        Axes("", "MAP"),
        bench.card(bits=bits),
        CHOICES + "Coders have their papers' settings and nothing to choose.",
        [*paper.NOTES, OURS, *([told] if told else [])],
    )


OURS = (
    "The paper's AlexNet row is fc7 of 4,096 dimensions; ours are the fixed vectors of "
    "the trunk named in the card, as its name says. Coders with labels are fitted to "
    "the training part, the others to at most 10,000 items of the database."
)


def representations(bench: Bench, bits: int) -> list[Representation]:
    """The five of the paper, as far as the trunk has them."""
    every = trained_contenders(bench.trunk.rates)
    name = bench.named_trunk[0]
    fixed = FIXED_NAMES.get(name, name)
    trained = {
        "feat, no snapping": ("feat, no GSL", every["plain"]),
        "feat, snapping (PQ)": ("feat+GSL(PQ)", every["snapping"]),
        "feat, snapping (AQ)": ("feat+GSL(AQ)", every["snapping+aq"]),
    }
    return [
        Representation("GIST, 512-d", "GIST", 0, lambda: _given(bench, _gist)),
        Representation(
            fixed, "AlexNet 4096-d", 0, lambda: _given(bench, lambda own: own.fixed)
        ),
        *(
            _learned(bench, row, system, contender, bits)
            for row, (system, contender) in trained.items()
        ),
    ]


FIXED_NAMES = {
    "alexnet": "AlexNet conv5, 256-d",
    "frozen": "EfficientNet-Lite0, 1280-d",
    "small": "pixels",
    "vectors": "the vectors of the file",
}


def _gist(bench: Bench) -> Path:
    return bench.vectors("gist", gist)


def _given(bench: Bench, make: Callable[[Bench], Path]) -> Files:
    """The same file for every seed; nothing is run."""
    yield from ()
    return [make(bench)] * bench.seeds


def _learned(
    bench: Bench, row: str, system: str, contender: Contender, bits: int
) -> Representation:
    own = replace(contender, name=row)

    def files() -> Files:
        choice = yield from bench.choose(own, bits)
        found = []
        for seed in range(bench.seeds):
            found.append(trained_vectors(bench, bench.config(own, choice, bits, seed)))
            yield f"{row}, {choice}, seed {seed}: vectors written"
        return found

    runs = bench.limited(own).trials + bench.seeds
    return Representation(row, system, runs, files)


def trained_vectors(bench: Bench, config: TrainingConfig) -> Path:
    """Embeddings of all items by the network of a run, trained if not there."""
    path = bench.folder / "vectors" / f"trained-{name_of(about_run(config))}.npz"
    if path.is_file():
        return path
    with tempfile.TemporaryDirectory(prefix="gradsnap-run-") as folder:
        model = trained_model(config, Path(folder) / "model")
    dataset = model.open(config.data.source, config.data.root)
    return vector_file(path, dataset, lambda: model.embed(dataset))


@dataclass(frozen=True)
class _Row:
    bench: Bench
    one: Representation
    bits: int
    columns: Sequence[str]
    made: list[Path] = field(default_factory=list)

    def jobs(self) -> list[Job]:
        return [
            Job(
                f"{self.one.name}, {kind}",
                self.bench.seeds + (0 if place else self.one.runs),
                lambda kind=kind: self.work(kind),  # type: ignore[misc]
                lambda why, kind=kind: [self.cell(kind, (), why)],  # type: ignore[misc]
            )
            for place, kind in enumerate(self.columns)
        ]

    def work(self, kind: str) -> Work:
        if not self.made:
            self.made.extend((yield from self.one.files()))
        found = yield from shallow_over_seeds(self.bench, self.made, kind, self.bits)
        return [self.cell(kind, tuple(one["code_map"] for one in found))]

    def cell(self, kind: str, values: tuple[float, ...], error: str = "") -> Cell:
        about = {"error": error} if error else {}
        same = self.bench.source.slug == EXPERIMENT.data
        published = paper.MAPS[self.one.system].get(kind, "") if same else ""
        return Cell(
            self.one.name, kind, values, None, self.one.system, published, about
        )


EXPERIMENT = Experiment(
    "table-1",
    "five representations coded by eight methods at 32 bits, CIFAR-10",
    paper.LABEL,
    "cifar10",
    plan,
)
