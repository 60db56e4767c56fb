"""Charts side by side above one legend, as an SVG file of its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gradsnap.reports.markup import Markup, markup, tag
from gradsnap.reports.svg import (
    BOTTOM,
    HEIGHT,
    WIDTH,
    Frame,
    Point,
    Series,
    line_chart,
    text,
)

ACROSS = 3
"""Panels side by side; more that share a legend go on below."""
TITLE_HEIGHT, LINE_HEIGHT = 26, 20
PANEL_HEIGHT = TITLE_HEIGHT + HEIGHT
SAMPLE_WIDTH, LETTER_WIDTH = 74, 7
"""Of a line's sample with its margins, and of a letter of its name."""
STYLE = """
svg{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.card{fill:#fff;stroke:#d9dde3}text{fill:#545d6b}text.name{fill:#1a1f27;font-weight:600}
.grid{stroke:#d9dde3;fill:none}.line{fill:none;stroke-width:2}
.mark{stroke-width:2;fill:#fff}.quiet{stroke-width:1;opacity:.45}
.colour0{stroke:#1f5fae}.colour1{stroke:#b0480f}.colour2{stroke:#1f7a48}
.colour3{stroke:#b8232f}.colour4{stroke:#7450bd}.colour5{stroke:#85592b}
.colour6{stroke:#b83a8a}.colour7{stroke:#5b6673}.colour8{stroke:#6f6f12}
.colour9{stroke:#0f7f92}
"""


class DoublingFrame(Frame):
    """Axes whose horizontal one doubles from mark to mark; its values are positive."""

    def place(self, point: Point) -> Point:
        """Where a point lies on the picture."""
        first, last = map(math.log2, self.across)
        even = Frame((first, last), self.up, self.names)
        return even.place((math.log2(point[0]), point[1]))


@dataclass(frozen=True)
class NamedFrame(Frame):
    """Axes whose horizontal one has names at 0, 1, 2 and so on."""

    words: Sequence[str] = ()

    def _mark_across(self, value: float) -> Markup:
        x, _ = self.place((value, self.up[0]))
        return text((x, HEIGHT - BOTTOM + 16), self.words[round(value)])


class Panel(NamedTuple):
    """One chart."""

    name: str
    frame: Frame
    lines: Sequence[Series]
    marks: Sequence[float] | None = None
    """Numbers below the horizontal axis, where round ones will not do."""


def panels_picture(title: str, panels: Sequence[Panel]) -> str:
    """The charts side by side with their legends below, as a whole SVG file.

    Panels with the same lines share one legend, three panels to a row; others have one
    each.
    """
    names = {tuple(line.name for line in panel.lines) for panel in panels}
    shared = len(panels) > 1 and len(names) == 1
    across = min(len(panels), ACROSS) if shared else max(len(panels), 1)
    wide, top = WIDTH * across, PANEL_HEIGHT * math.ceil(len(panels) / across)
    legends = [
        _legend(panel.lines, (number * WIDTH, top), wide if shared else WIDTH)
        for number, panel in enumerate(panels[:1] if shared else panels)
    ]
    high = top + max((one.height for one in legends), default=0) + 12
    card = {"x": "0.5", "y": "0.5", "width": str(wide - 1), "height": str(high - 1)}
    body = markup(
        tag("title", title),
        tag("style", Markup(STYLE.strip())),
        tag("rect", class_="card", rx="12", **card),
        *(_drawn(panel, *divmod(n, across)) for n, panel in enumerate(panels)),
        *(one.drawn for one in legends),
    )
    size = f"0 0 {wide} {high}"
    whole = tag("svg", body, xmlns="http://www.w3.org/2000/svg", viewBox=size)
    return f"{whole}\n"


class _Legend(NamedTuple):
    drawn: Markup
    height: int


def _legend(lines: Sequence[Series], corner: tuple[int, int], wide: int) -> _Legend:
    """The names of lines in as many columns as they leave room for."""
    longest = max((len(line.name) for line in lines), default=1)
    columns = max(1, wide // (SAMPLE_WIDTH + LETTER_WIDTH * longest))
    entries = []
    for number, line in enumerate(lines):
        row, column = divmod(number, columns)
        across, down = wide * column // columns, LINE_HEIGHT * row
        entries.append(_entry(line, corner[0] + across, corner[1] + down))
    return _Legend(markup(*entries), LINE_HEIGHT * math.ceil(len(lines) / columns))


def _drawn(panel: Panel, row: int, column: int) -> Markup:
    chart = line_chart(panel.name, panel.frame, panel.lines, marks=panel.marks)
    moved = f"translate({column * WIDTH} {row * PANEL_HEIGHT + TITLE_HEIGHT})"
    sized = Markup(
        chart.replace("<svg ", f'<svg width="{WIDTH}" height="{HEIGHT}" ', 1)
    )
    heading = text((WIDTH / 2, -8.0), panel.name, css="name")
    return tag("g", heading, sized, transform=moved)


def _entry(line: Series, left: int, top: int) -> Markup:
    """A line of the legend."""
    x, y = left + 24, top + 10
    sample = line.look.line(f"M{x} {y}h34")
    mark = line.look.mark((x + 17.0, float(y))) if line.marked else Markup()
    return markup(sample, mark, text((x + 44, y + 4), line.name, anchor="start"))
