"""Everything the demo found out, from which the table and the report are made."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradsnap.demo.figures import Measured, Range, Row
from gradsnap.demo.runs import Side
from gradsnap.demo.settings import DemoSettings
from gradsnap.demo.verdict import on_lengths, verdict


@dataclass(frozen=True)
class Findings:
    """Both sides, by their layer, with what they share."""

    settings: DemoSettings
    sides: dict[str, Side]
    measured: dict[str, list[Measured]]
    """One for each seed."""
    rows: dict[str, Row]
    images: Tensor
    """The database's, uint8 (n, 1, 8, 8)."""
    query_images: Tensor
    """uint8 (q, 1, 8, 8)."""
    card: dict[str, Any]
    """The protocol, the machine and the command."""
    seconds: float

    def verdict(self) -> list[str]:
        """What may be said of the figures."""
        return verdict(self.rows["plain"], self.rows["snapping"], self.settings.seeds)

    def on_lengths(self) -> str:
        """What may be said of MAP against bits."""
        maps = self.code_maps("plain"), self.code_maps("snapping")
        return on_lengths(*maps, self.settings.seeds)

    def code_maps(self, layer: str) -> dict[int, Range]:
        """MAP of codes over seeds, by bits."""
        runs = self.measured[layer]
        return {
            bits: Range.of(run.code_maps[bits] for run in runs)
            for bits in self.settings.lengths
        }

    def record(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        against_bits = {
            side.name: {
                bits: value._asdict() for bits, value in self.code_maps(layer).items()
            }
            for layer, side in self.sides.items()
        }
        return {
            "data": self.card["dataset"],
            "bits": self.settings.bits,
            "seeds": self.settings.seeds,
            "steps": self.settings.steps,
            "rows": [row.record() for row in self.rows.values()],
            "code_map_against_bits": against_bits,
            "verdict": self.verdict(),
            "verdict_against_bits": self.on_lengths(),
            "protocol": self.card,
            "seconds": round(self.seconds, 1),
        }
