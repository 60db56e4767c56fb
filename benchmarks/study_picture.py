"""The picture of the study: MAP against bits, a line for each method."""

import math

from benchmarks.study_cells import LAYOUTS, PLAIN
from benchmarks.study_rows import CellRows, Mean
from gradsnap.reports.markup import Markup, markup, tag
from gradsnap.reports.svg import (
    HEIGHT,
    WIDTH,
    Frame,
    Look,
    Point,
    Series,
    line_chart,
    padded,
    text,
)

FLOATS = "floats, plain network"
TITLE_HEIGHT, LINE_HEIGHT = 26, 20
COLUMNS = 2
STYLE = """
svg{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.card{fill:#fff;stroke:#d9dde3}text{fill:#545d6b}text.name{fill:#1a1f27;font-weight:600}
.grid{stroke:#d9dde3;fill:none}.line{fill:none;stroke-width:2}
.mark{stroke-width:2;fill:#fff}
.colour0{stroke:#1f5fae}.colour1{stroke:#b0480f}.colour2{stroke:#1f7a48}
.colour3{stroke:#b8232f}.colour4{stroke:#7450bd}.colour5{stroke:#85592b}
.colour6{stroke:#b83a8a}.colour7{stroke:#5b6673}.colour8{stroke:#6f6f12}
.colour9{stroke:#0f7f92}
"""


class BitsFrame(Frame):
    """Axes whose horizontal one doubles from mark to mark."""

    def place(self, point: Point) -> Point:
        """Where a point lies on the picture."""
        return super().place((math.log2(point[0]), point[1]))


def picture_of(cells: list[CellRows]) -> str:
    """A chart for each data set with a line for each method, as a whole SVG file."""
    names = list(dict.fromkeys(rows[PLAIN].data for rows in cells))
    charts = {name: lines_of(cells, name) for name in names}
    charts = {name: lines for name, lines in charts.items() if len(lines[0].points) > 1}
    panels = [_panel(name, lines, n) for n, (name, lines) in enumerate(charts.items())]
    legend = next(iter(charts.values()), [])
    wide = WIDTH * max(len(panels), COLUMNS)
    high = HEIGHT + TITLE_HEIGHT + LINE_HEIGHT * math.ceil(len(legend) / COLUMNS) + 12
    card = {"x": "0.5", "y": "0.5", "width": str(wide - 1), "height": str(high - 1)}
    body = markup(
        tag("title", "Code MAP against bits, a line for each method"),
        tag("style", Markup(STYLE.strip())),
        tag("rect", class_="card", rx="12", **card),
        *panels,
        *(_entry(line, n) for n, line in enumerate(legend)),
    )
    size = f"0 0 {wide} {high}"
    whole = tag("svg", body, xmlns="http://www.w3.org/2000/svg", viewBox=size)
    return f"{whole}\n"


def lines_of(cells: list[CellRows], data: str) -> list[Series]:
    """A line for each method, and one for the plain network's floats."""
    own = [rows for rows in cells if rows[PLAIN].data == data]
    lines = [
        Series(
            method,
            [
                (rows[method].bits, Mean.of(rows[method].code_maps).value)
                for rows in own
            ],
            Look.numbered(number),
        )
        for number, method in enumerate(own[0])
    ]
    floats = [(r[PLAIN].bits, Mean.of(r[PLAIN].float_maps).value) for r in own]
    return [*lines, Series(FLOATS, floats, Look.numbered(len(lines)))]


def _panel(name: str, lines: list[Series], number: int) -> Markup:
    bits = [one.bits for one in LAYOUTS]
    ends = math.log2(bits[0]), math.log2(bits[-1])
    frame = BitsFrame(ends, padded(lines), ("bits", "code MAP"))
    chart = line_chart(name, frame, lines, marks=bits)
    moved = f"translate({number * WIDTH} {TITLE_HEIGHT})"
    sized = Markup(
        chart.replace("<svg ", f'<svg width="{WIDTH}" height="{HEIGHT}" ', 1)
    )
    return tag("g", text((WIDTH / 2, -8.0), name, css="name"), sized, transform=moved)


def _entry(line: Series, number: int) -> Markup:
    """A line of the legend."""
    x = 24 + WIDTH * (number % COLUMNS)
    y = HEIGHT + TITLE_HEIGHT + 10 + LINE_HEIGHT * (number // COLUMNS)
    sample = line.look.line(f"M{x} {y}h34")
    mark = line.look.mark((x + 17.0, float(y)))
    return markup(sample, mark, text((x + 44, y + 4), line.name, anchor="start"))
