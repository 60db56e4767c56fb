"""What may come of a try, and how it is counted."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

FINE = ("refused", "answered")
FAILURES = (
    "traceback",
    "hang",
    "crash",
    "wrong answer",
    "silent loss",
    "code executed",
)


class WrongAnswer(Exception):
    """Something was answered that is not so."""


class SilentLoss(Exception):
    """Something that was promised to be kept is gone, and nobody said so."""


class CodeExecuted(BaseException):
    """Something of a file was run, or a file outside was opened.

    No ``Exception``: no handler between the file and the storm may swallow it.
    """


NAMED: dict[type[BaseException], str] = {
    WrongAnswer: "wrong answer",
    SilentLoss: "silent loss",
    CodeExecuted: "code executed",
}


def failure_of(error: BaseException) -> str:
    """What an exception that left a try is counted as."""
    return NAMED.get(type(error), "traceback")


class Report(NamedTuple):
    """What a worker says of a try."""

    seed: int
    outcome: str
    words: str
    """The traceback, or what was seen."""
    steps: int
    """How many steps it took, in the kind's own measure."""


class Failure(NamedTuple):
    """A try that failed."""

    kind: str
    seed: int
    outcome: str
    words: str
    """The traceback, or what was seen."""

    @property
    def sort(self) -> str:
        """What failures of one cause have in common: the last place in our code."""
        places = [line for line in self.words.splitlines() if "gradsnap/" in line]
        return f"{self.outcome} {(places or [self.words])[-1]}"

    def __str__(self) -> str:
        lines = self.words.strip().splitlines() or [""]
        places = [line.strip() for line in lines if "src/gradsnap/" in line][-1:]
        again = f"make storm STORM_SEED={self.seed} KIND={self.kind} TRIES=1"
        said = [f"{self.kind}: {self.outcome}: {lines[-1][:300]}", *places]
        return "\n    ".join([*said, f"again: {again}"])


@dataclass
class Tally:
    """The tries of one kind."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    worked: float = 0.0
    """Seconds of processors, which are fewer where other work goes on."""
    seeds: list[int] = field(default_factory=list)
    steps: int = 0
    said: str = ""
    """What the kind itself says of its tries."""

    def add(self, report: Report) -> Failure | None:
        """Counts a try; the failure, if it was one."""
        self.counts[report.outcome] += 1
        self.seeds.append(report.seed)
        self.steps += report.steps
        if report.outcome in FINE:
            return None
        failure = Failure(self.kind, report.seed, report.outcome, report.words)
        self.failures.append(failure)
        return failure

    @property
    def tries(self) -> int:
        """How many there were."""
        return sum(self.counts.values())


def table(tallies: list[Tally]) -> str:
    """The tallies by kind, as Markdown."""
    names = ["tries", *FINE, "tracebacks", "hangs", "crashes"]
    names += ["wrong answers", "silent losses", "code executed", "seconds"]
    rows = [[tally.kind, *_cells(tally)] for tally in tallies]
    whole = Tally("all")
    for tally in tallies:
        whole.counts += tally.counts
        whole.seconds += tally.seconds
    rows.append([whole.kind, *_cells(whole)])
    lines = ["| kind | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    notes = [f"{tally.kind}: {tally.said}" for tally in tallies if tally.said]
    return "\n".join(lines + ([""] if notes else []) + notes)


def _cells(tally: Tally) -> list[str]:
    counts = [tally.tries, *(tally.counts[name] for name in (*FINE, *FAILURES))]
    return [f"{count:,}" for count in counts] + [f"{tally.seconds:.0f}"]
