"""Small charts as SVG that takes its colours from the page: light, dark, print."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gradsnap.reports.markup import Markup, markup, tag

WIDTH, HEIGHT = 380, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 20, 12, 40

TOLD = 8
"""Points of a line that are read out; of a longer line the last alone."""

COLOURS = 10
"""As many are in the style sheet, as ``colour0`` and so on."""
DASHES = ("", "7 3", "2 4", "10 3 2 3")
MARKERS = (
    "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",  # disc
    "M-4 -4H4V4H-4Z",  # square
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",  # diamond
    "M0 -5L5 4H-5Z",  # triangle
    "M0 5L5 -4H-5Z",  # triangle on its tip
    "M-4 0H4M0 -4V4",  # plus
    "M-4 -4L4 4M-4 4L4 -4",  # cross
)
"""Outlines around (0, 0)."""

Point = tuple[float, float]


class Look(NamedTuple):
    """How one series is told from the others, by numbers from 0 on."""

    colour: int
    dash: int = 0
    marker: int = 0
    quiet: bool = False
    """Thin and pale, below the others."""

    @classmethod
    def numbered(cls, number: int) -> "Look":
        """A look for each number: 140 different ones, 28 of them without colour.

        Dashes and markers are 4 and 7, which share no divisor, so that their pairs
        come back only after 28.
        """
        return cls(number % COLOURS, number % len(DASHES), number % len(MARKERS))

    def line(self, path: str) -> Markup:
        """A line of that look along a path."""
        dash = DASHES[self.dash % len(DASHES)] or None
        return tag("path", class_=f"line {self.css}", stroke_dasharray=dash, d=path)

    def mark(self, place: Point) -> Markup:
        """Its marker at a place of the picture."""
        outline = MARKERS[self.marker % len(MARKERS)]
        moved = f"translate({place[0]:.1f} {place[1]:.1f})"
        return tag("path", class_=f"mark {self.css}", transform=moved, d=outline)

    @property
    def css(self) -> str:
        """Its class in the style sheet."""
        name = f"colour{self.colour % COLOURS}"
        return f"{name} quiet" if self.quiet else name


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str
    """For the legend."""
    points: Sequence[Point]
    look: Look
    marked: bool = True
    """Whether each point gets a marker."""

    def words(self) -> str:
        """The points for those who do not see them; of many the last alone.

        >>> Series("PQ", [(8, 0.5), (16, 0.625)], Look(0)).words()
        'PQ: 0.500 at 8, 0.625 at 16'
        """
        told = self.points if len(self.points) <= TOLD else self.points[-1:]
        values = ", ".join(f"{y:.3f} at {short(x)}" for x, y in told)
        return f"{self.name}: {values or 'nothing'}"


@dataclass(frozen=True)
class Frame:
    """The axes of a chart: what is shown, and where it lies on the picture."""

    across: Point
    """Least and most value on the horizontal axis."""
    up: Point
    """Least and most value on the vertical axis."""
    names: tuple[str, str]
    """Of the horizontal and the vertical axis."""

    def place(self, point: Point) -> Point:
        """Where a point lies on the picture."""
        x, y = point
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        right = (x - self.across[0]) / ((self.across[1] - self.across[0]) or 1)
        above = (y - self.up[0]) / ((self.up[1] - self.up[0]) or 1)
        return LEFT + wide * right, TOP + high * (1 - above)

    def axes(self, marks: Sequence[float] | None = None) -> Markup:
        """Grid lines, numbers and names; ``marks`` for the horizontal axis."""
        middle_x = (LEFT + WIDTH - RIGHT) / 2
        middle_y = (TOP + HEIGHT - BOTTOM) / 2
        turned = f"translate(12 {middle_y:.0f}) rotate(-90)"
        return markup(
            *(self._mark_up(value) for value in ticks(*self.up)),
            *(self._mark_across(value) for value in marks or ticks(*self.across)),
            text((middle_x, HEIGHT - 6), self.names[0]),
            tag("text", self.names[1], text_anchor="middle", transform=turned),
        )

    def _mark_up(self, value: float) -> Markup:
        _, y = self.place((self.across[0], value))
        grid = tag("path", class_="grid", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}")
        return markup(grid, text((LEFT - 6, y + 4), short(value), anchor="end"))

    def _mark_across(self, value: float) -> Markup:
        x, _ = self.place((value, self.up[0]))
        return text((x, HEIGHT - BOTTOM + 16), short(value))


def picture(title: str, *body: Markup, height: int = HEIGHT) -> Markup:
    """A whole SVG with its text for those who do not see it."""
    size = f"0 0 {WIDTH} {height}"
    return tag("svg", *body, role="img", viewBox=size, aria_label=title)


def line_chart(
    title: str,
    frame: Frame,
    lines: Sequence[Series],
    marks: Sequence[float] | None = None,
) -> Markup:
    """Lines over axes; a series without points is left out.

    Args:
        title: for those who do not see it; the values are said after it.
        frame: the axes.
        lines: each with its look.
        marks: numbers below the horizontal axis, where round ones will not do.
    """
    body = [frame.axes(marks)]
    for line in sorted(lines, key=lambda line: not line.look.quiet):
        places = [frame.place(point) for point in line.points]
        if places:
            body.append(line.look.line(_path(places)))
        if line.marked:
            body += [line.look.mark(place) for place in places]
    told = "; ".join(line.words() for line in lines)
    return picture(f"{title}. {told}", *body)


def histogram(
    title: str, counts: Sequence[int], across: Point, names: tuple[str, str], look: Look
) -> Markup:
    """Bars for counts in equal steps of the horizontal axis, in percent of all."""
    total = sum(counts) or 1
    shares = [100 * count / total for count in counts]
    up = (0.0, max(shares) * 1.05 or 1.0)
    return bar_chart(title, Frame(across, up, names), shares, look)


def bar_chart(title: str, frame: Frame, heights: Sequence[float], look: Look) -> Markup:
    """Bars of equal width that fill the horizontal axis."""
    step = (frame.across[1] - frame.across[0]) / len(heights)
    body = [frame.axes()]
    for number, height in enumerate(heights):
        start = frame.across[0] + number * step
        left, top = frame.place((start, height))
        right, bottom = frame.place((start + step, frame.up[0]))
        wide, high = right - left - 2, bottom - top
        bar = f"bar {look.css}"
        body.append(tag("rect", class_=bar, x=left + 1, y=top, width=wide, height=high))
    return picture(title, *body)


def legend(lines: Sequence[Series]) -> Markup:
    """The names of the series, each beside a piece of its line."""
    items = []
    for line in lines:
        mark = line.look.mark((17.0, 7.0)) if line.marked else Markup()
        sample = (line.look.line("M0 7H34"), mark)
        drawn = tag("svg", *sample, viewBox="0 0 34 14", aria_hidden="true")
        items.append(tag("li", drawn, line.name))
    return tag("ul", *items, class_="legend")


def text(
    place: Point, words: str, css: str | None = None, anchor: str = "middle"
) -> Markup:
    """Words at a place of the picture."""
    at = {"x": float(place[0]), "y": float(place[1])}
    return tag("text", words, class_=css, text_anchor=anchor, **at)


def ticks(least: float, most: float, count: int = 5) -> list[float]:
    """Round values between least and most.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (most - least) / count or 1.0
    base = 10 ** math.floor(math.log10(rough))
    step = next(base * one for one in (1, 2, 5, 10) if base * one >= rough * 0.999)
    first, last = math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def padded(lines: Sequence[Series], share: float = 0.08) -> Point:
    """Least and most height of all the points, with some room around."""
    heights = [height for line in lines for _, height in line.points] or [0.0]
    room = (max(heights) - min(heights)) * share or 0.01
    return min(heights) - room, max(heights) + room


def short(value: float) -> str:
    """A number with no more digits than it has.

    >>> short(0.5), short(400.0), short(-1.0)
    ('0.5', '400', '−1')
    """
    return f"{value:g}".replace("-", "−")


def _path(places: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
