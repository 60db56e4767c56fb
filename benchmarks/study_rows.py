"""A line of the study: means over seeds, their standard errors, paired differences."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from benchmarks.report import Record
from gradsnap.experiments.contenders import Choice, Contender
from gradsnap.experiments.layouts import Layout
from gradsnap.experiments.means import Mean
from gradsnap.experiments.runs import Outcome
from gradsnap.training.beside import WORTH


@dataclass(frozen=True)
class StudyRow:
    """One method in one cell, a figure for each seed."""

    data: str
    layout: str
    bits: int
    method: str
    rate: float
    strength: float | None
    code_maps: list[float]
    float_maps: list[float]
    precisions: list[float]
    float_precisions: list[float]
    fitted_to: dict[str, int]
    """How often the validation part chose each source of the codebooks."""
    seconds: float
    """Of its runs with this choice."""
    key: str
    """A digest of the settings it was made with."""
    validations: list[float] = field(default_factory=list)
    """Code MAP on the validation part; none in rows of a time when it was not kept."""

    @property
    def met(self) -> bool | None:
        """A study has no bar."""
        return None

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        strength = "" if self.strength is None else f"{self.strength:g}"
        return {
            "what": f"{self.data}, {self.layout}",
            "bits": str(self.bits),
            "method": self.method,
            "rate": f"{self.rate:g}",
            "strength": strength,
            "code MAP": str(Mean.of(self.code_maps)),
            "float MAP": str(Mean.of(self.float_maps)),
            "precision@10": str(Mean.of(self.precisions)),
        }

    def record(self) -> Record:
        """What is written to the JSON file."""
        return asdict(self)


CellRows = dict[str, StudyRow]
"""The rows of one cell, by method."""


def row_of(
    key: str,
    data: str,
    layout: Layout,
    method: Contender,
    choice: Choice,
    runs: list[Outcome],
) -> StudyRow:
    """The row of a method's runs, one a seed."""
    return StudyRow(
        key=key,
        data=data,
        layout=str(layout),
        bits=layout.bits,
        method=method.name,
        rate=choice.rate,
        strength=choice.strength,
        code_maps=[run.code_map for run in runs],
        float_maps=[run.float_map for run in runs],
        precisions=[run.precision for run in runs],
        float_precisions=[run.float_precision for run in runs],
        fitted_to=dict(Counter(run.fitted_to for run in runs)),
        seconds=sum(run.seconds for run in runs),
        validations=[run.validation_map for run in runs],
    )


def kept_row(name: str, rows: Sequence[StudyRow]) -> StudyRow | None:
    """The row of what the validation part keeps of some rows, seed by seed.

    Args:
        name: of the new row.
        rows: the first is kept unless another is better by ``WORTH``.

    Returns:
        None where a row does not say how it did on the validation part.
    """
    if not all(row.validations for row in rows):
        return None
    kept = [_kept(rows, seed) for seed in range(len(rows[0].code_maps))]

    def each(figure: str) -> list[float]:
        return [getattr(row, figure)[seed] for seed, row in enumerate(kept)]

    return replace(
        rows[0],
        method=name,
        code_maps=each("code_maps"),
        float_maps=each("float_maps"),
        precisions=each("precisions"),
        float_precisions=each("float_precisions"),
        fitted_to=dict(Counter(row.method for row in kept)),
        validations=each("validations"),
    )


def _kept(rows: Sequence[StudyRow], seed: int) -> StudyRow:
    best = rows[0]
    for row in rows[1:]:
        if row.validations[seed] > best.validations[seed] + WORTH:
            best = row
    return best
