"""Small charts as SVG that takes its colours from the page: light, dark, print."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 380, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 20, 12, 40

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    look: str
    """Class in the style sheet; also says the marker."""
    points: Sequence[Point]
    marked: bool = False
    """Whether each point gets a marker."""


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

    def axes(self, marks: Sequence[float] | None = None) -> str:
        """Grid lines, numbers and names; ``marks`` for the horizontal axis."""
        middle_x = (LEFT + WIDTH - RIGHT) / 2
        middle_y = (TOP + HEIGHT - BOTTOM) / 2
        parts = [self._mark_up(value) for value in ticks(*self.up)]
        parts += [self._mark_across(value) for value in marks or ticks(*self.across)]
        parts.append(text((middle_x, HEIGHT - 6), self.names[0], "name"))
        if not self.names[1]:
            return "".join(parts)
        parts.append(
            f'<text class="name" text-anchor="middle" transform="translate(12 '
            f'{middle_y:.0f}) rotate(-90)">{escape(self.names[1])}</text>'
        )
        return "".join(parts)

    def _mark_up(self, value: float) -> str:
        _, y = self.place((self.across[0], value))
        grid = f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        return grid + text((LEFT - 6, y + 4), short(value), "end")

    def _mark_across(self, value: float) -> str:
        x, _ = self.place((value, self.up[0]))
        return text((x, HEIGHT - BOTTOM + 16), short(value))


def picture(title: str, body: str, height: int = HEIGHT) -> str:
    """A whole SVG with its text for those who do not see it."""
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height}" '
        f'aria-label="{escape(title, quote=True)}">{body}</svg>'
    )


def line_chart(
    title: str,
    frame: Frame,
    lines: Sequence[Series],
    marks: Sequence[float] | None = None,
) -> str:
    """Lines over axes; each look has its own dash and marker besides its colour."""
    body = frame.axes(marks)
    for line in lines:
        places = [frame.place(point) for point in line.points]
        body += f'<path class="line {line.look}" d="{_path(places)}"/>'
        if line.marked:
            body += "".join(marker(place, line.look) for place in places)
    return picture(title, body)


def bar_chart(title: str, frame: Frame, bars: Sequence[Point]) -> str:
    """Bars of equal width that begin at the given values and have the given heights."""
    body = frame.axes()
    step = bars[1][0] - bars[0][0]
    for start, height in bars:
        left, top = frame.place((start, height))
        right, bottom = frame.place((start + step, frame.up[0]))
        body += (
            f'<rect class="bar" x="{left + 1:.1f}" y="{top:.1f}" '
            f'width="{right - left - 2:.1f}" height="{bottom - top:.1f}"/>'
        )
    return picture(title, body)


def marker(place: Point, look: str) -> str:
    """A disc for the plain side, a square for the other: not by colour alone."""
    x, y = place
    if look.startswith("plain"):
        return f'<circle class="mark plain" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return (
        f'<rect class="mark snapping" x="{x - 4:.1f}" y="{y - 4:.1f}" '
        'width="8" height="8"/>'
    )


def text(place: Point, words: str, look: str = "") -> str:
    """Words at a place, centred unless the look says otherwise."""
    anchor = "end" if look == "end" else "middle"
    return (
        f'<text class="{look}" text-anchor="{anchor}" x="{place[0]:.1f}" '
        f'y="{place[1]:.1f}">{escape(words)}</text>'
    )


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


def padded(values: Sequence[float], share: float = 0.08) -> Point:
    """Least and most of the values with some room around."""
    room = (max(values) - min(values)) * share or 0.01
    return min(values) - room, max(values) + room


def short(value: float) -> str:
    """A number with no more digits than it has.

    >>> short(0.5), short(400.0), short(-1.0)
    ('0.5', '400', '−1')
    """
    return f"{value:g}".replace("-", "−")


def _path(places: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
