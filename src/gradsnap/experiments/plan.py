"""What an experiment is, and what it asks to be done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradsnap.errors import InputError
from gradsnap.evaluation import ProtocolCard
from gradsnap.experiments.bench import Bench
from gradsnap.experiments.contenders import Contender, fixed_rows, trained_contenders
from gradsnap.experiments.jobs import Job
from gradsnap.experiments.results import Axes, Cell


@dataclass(frozen=True)
class Request:
    """What the user asked for; None leaves it to the experiment."""

    bits: tuple[int, ...] | None = None
    methods: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Plan:
    """What is to be done, and how it is shown."""

    jobs: Sequence[Job]
    axes: Axes
    card: ProtocolCard | None = None
    choices: str = ""
    notes: Sequence[str] = ()
    cells: Sequence[Cell] = field(default_factory=tuple)
    """Cells that need no run."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    summary: str
    label: str
    """In the paper."""
    data: str
    """The paper's data set."""
    plan: Callable[[Bench, Request], Plan]
    trains: bool = True
    """Whether anything is run; else the data do not matter."""


def chosen_rows(
    bench: Bench, request: Request, default: Sequence[str] | None = None
) -> dict[str, Contender | None]:
    """The rows of the registry that are wanted; None for a coder on fixed vectors.

    Args:
        bench: what all share.
        request: names of rows, where the user gave some.
        default: names where the user gave none; None is all there are.

    Raises:
        InputError: an unknown row.
    """
    known: dict[str, Contender | None] = {**trained_contenders(bench.trunk.rates)}
    known |= dict.fromkeys(fixed_rows())
    wanted = request.methods or (known if default is None else default)
    unknown = [row for row in wanted if row not in known]
    if unknown:
        raise InputError(
            f"unknown method {unknown[0]!r}; choose from {', '.join(known)}"
        )
    return {row: known[row] for row in wanted}
