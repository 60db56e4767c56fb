"""The picture of the study: MAP against bits, a line for each method."""

from benchmarks.study_cells import KEPT, PLAIN
from benchmarks.study_rows import CellRows
from gradsnap.experiments.means import Mean
from gradsnap.reports.panels import DoublingFrame, Panel, panels_picture
from gradsnap.reports.svg import Look, Series, padded

FLOATS = "floats, plain network"
STRESSED = (KEPT, PLAIN, FLOATS, "snapping", "snapping through codes")
"""Lines to look at; the others are thin and pale beside them."""


def picture_of(cells: list[CellRows]) -> str:
    """A chart for each data set with a line for each method, as a whole SVG file."""
    names = list(dict.fromkeys(rows[PLAIN].data for rows in cells))
    charts = {name: lines_of(cells, name) for name in names}
    drawn = {name: lines for name, lines in charts.items() if len(lines[0].points) > 1}
    panels = [_panel(name, lines) for name, lines in drawn.items()]
    return panels_picture("Code MAP against bits, a line for each method", panels)


def lines_of(cells: list[CellRows], data: str) -> list[Series]:
    """A line for each method, and one for the plain network's floats.

    Of layouts with equal bits the first is drawn, the one of several codebooks.
    """
    of_bits: dict[int, CellRows] = {}
    for rows in cells:
        if rows[PLAIN].data == data:
            of_bits.setdefault(rows[PLAIN].bits, rows)
    own = [of_bits[bits] for bits in sorted(of_bits)]
    heights = {method: [rows[method].code_maps for rows in own] for method in own[0]}
    heights[FLOATS] = [rows[PLAIN].float_maps for rows in own]
    named = sorted(heights, key=lambda name: name not in STRESSED)
    return [
        Series(
            name,
            [
                (rows[PLAIN].bits, Mean.of(maps).value)
                for rows, maps in zip(own, heights[name], strict=True)
            ],
            Look.numbered(number)._replace(quiet=name not in STRESSED),
        )
        for number, name in enumerate(named)
    ]


def _panel(name: str, lines: list[Series]) -> Panel:
    bits = [bits for bits, _ in lines[0].points]
    frame = DoublingFrame((bits[0], bits[-1]), padded(lines), ("bits", "code MAP"))
    return Panel(name, frame, lines, bits)
