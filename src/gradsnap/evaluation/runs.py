"""A run: its card and its figures, in a JSON file and a CSV of its curves."""

import csv
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradsnap.errors import FileFormatError, InputError
from gradsnap.evaluation.card import ProtocolCard
from gradsnap.evaluation.confidence import Spread, spread
from gradsnap.evaluation.result import Evaluation
from gradsnap.files import replacing

FORMAT = "gradsnap-run-1"


@dataclass(frozen=True, eq=False)
class Run:
    """One method under one protocol, evaluated once for each seed."""

    name: str
    """What it is called in a table."""
    card: ProtocolCard
    evaluations: tuple[Evaluation, ...]
    """One for each seed of the card."""

    def __post_init__(self) -> None:
        if len(self.evaluations) != len(self.card.seeds):
            raise InputError(
                f"{self.name}: {len(self.evaluations)} evaluations for "
                f"{len(self.card.seeds)} seeds on the card"
            )
        wrong = [e.rules for e in self.evaluations if e.rules != self.card.rules]
        if wrong:
            raise InputError(
                f"{self.name}: evaluated as {wrong[0]}, but the card says "
                f"{self.card.rules}"
            )

    @property
    def spread(self) -> Spread:
        """MAP over the seeds."""
        return spread([evaluation.map for evaluation in self.evaluations])

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON; every query's figure among them."""
        return {
            "format": FORMAT,
            "name": self.name,
            "card": self.card.record(),
            "map": {
                "mean": self.spread.mean,
                "seeds": [evaluation.map for evaluation in self.evaluations],
            },
            "evaluations": [
                evaluation.record()
                | {"average_precisions": _plain(evaluation.average_precisions.tolist())}
                for evaluation in self.evaluations
            ],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the run as JSON, beside ``path`` and renamed into place."""
        text = json.dumps(self.record(), indent=1, ensure_ascii=False, allow_nan=False)
        with replacing(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    def save_curves(self, path: str | os.PathLike[str]) -> None:
        """Writes precision and recall at N as CSV, a row for each seed and N."""
        with replacing(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["name", "seed", "n", "precision", "recall"])
            for seed, found in zip(self.card.seeds, self.evaluations, strict=True):
                for row in zip(
                    found.points, found.precision, found.recall, strict=True
                ):
                    writer.writerow([self.name, seed, *row])


def load_run(path: str | os.PathLike[str]) -> Run:
    """Reads a run written by ``Run.save``.

    Raises:
        InputError: there is no such file.
        FileFormatError: the file is truncated, changed or not a run.
    """
    name = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"there is no file {name}")
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if record.get("format") != FORMAT:
            raise FileFormatError(f"{name} is not a run written by Run.save")
        card = ProtocolCard.from_record(record["card"])
        found = [_evaluation(one, card) for one in record["evaluations"]]
        return Run(record["name"], card, tuple(found))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{name} is truncated or changed: {error!r}") from error


def _evaluation(record: dict[str, Any], card: ProtocolCard) -> Evaluation:
    values = [float("nan") if v is None else v for v in record["average_precisions"]]
    return Evaluation(
        rules=card.rules,
        average_precisions=torch.tensor(values, dtype=torch.float64),
        points=tuple(record["points"]),
        precision=tuple(record["precision"]),
        recall=tuple(record["recall"]),
        without_hit=record["queries_without_hit"],
        ndcg=record["ndcg"],
        radius_precision=record["radius_2_precision"],
    )


def _plain(values: Sequence[float]) -> list[float | None]:
    """NaN as null, which JSON has a word for."""
    return [None if value != value else value for value in values]
