"""The report's charts: MAP against bits, conformity, training curves."""

from statistics import fmean

from gradsnap.demo.findings import Findings
from gradsnap.demo.runs import Record
from gradsnap.demo.svg import (
    Frame,
    Point,
    Series,
    bar_chart,
    line_chart,
    padded,
    short,
)

CURVES = {
    "loss": "Triplet loss of a batch",
    "relative_error": "Quantization error of a batch",
    "code_map": "MAP of codes, validation",
}
"""What is drawn against the steps, and what it is called."""


def bits_chart(found: Findings) -> str:
    """MAP of codes against bits for both sides, and of floats as a dashed line."""
    lengths = found.settings.lengths
    ends = float(lengths[0]), float(lengths[-1])
    lines, words = [], []
    for layer, row in found.rows.items():
        maps = [(float(b), one.mean) for b, one in found.code_maps(layer).items()]
        floats = row.float_map.mean
        lines.append(Series(f"{layer} floats", [(end, floats) for end in ends]))
        lines.append(Series(layer, maps, marked=True))
        told = ", ".join(f"{value:.3f} at {bits:g}" for bits, value in maps)
        words.append(f"{row.name}: {told} bits, floats {floats:.3f}")
    up = padded([value for line in lines for _, value in line.points])
    frame = Frame((ends[0] - 1, ends[1] + 1), up, ("bits a vector", "MAP"))
    title = "MAP of codes against bits. " + "; ".join(words)
    return line_chart(title, frame, lines, marks=lengths)


def conformity_chart(found: Findings) -> str:
    """How often which conformity occurred, over all records of all seeds."""
    counts = conformity_counts(found)
    total = sum(counts) or 1
    width = 2 / len(counts)
    bars = [(-1 + width * n, 100 * count / total) for n, count in enumerate(counts)]
    frame = Frame(
        (-1, 1),
        (0, max(height for _, height in bars) * 1.05 or 1),
        ("conformity", "rows, %"),
    )
    positive = sum(counts[len(counts) // 2 :]) / total
    title = f"Histogram of the conformity from −1 to 1; {positive:.0%} lie above 0."
    return bar_chart(title, frame, bars)


def conformity_counts(found: Findings) -> list[int]:
    """The logged histograms, added up."""
    histograms = [
        record["conformity_histogram"]
        for run in found.sides["snapping"].runs
        for record in run.records
        if "conformity_histogram" in record
    ]
    return [sum(column) for column in zip(*histograms, strict=True)] or [0, 0]


def curve_chart(found: Findings, key: str) -> str:
    """One logged figure against the steps, mean over seeds, for both sides."""
    lines = [
        Series(layer, mean_curve([run.records for run in side.runs], key))
        for layer, side in found.sides.items()
    ]
    values = [value for line in lines for _, value in line.points] or [0.0]
    frame = Frame((0, found.settings.steps), padded(values), ("step", ""))
    ends = ", ".join(
        f"{side.name} {short(round(line.points[-1][1], 3))}"
        for side, line in zip(found.sides.values(), lines, strict=True)
        if line.points
    )
    shown = [line for line in lines if line.points]
    return line_chart(f"{CURVES[key]} against steps; at the end {ends}", frame, shown)


def mean_curve(runs: list[list[Record]], key: str) -> list[Point]:
    """Steps and the mean of a logged figure over runs that logged at equal steps."""
    curves = [
        {record["step"]: record[key] for record in records if key in record}
        for records in runs
    ]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    return [(step, fmean(curve[step] for curve in curves)) for step in steps]
