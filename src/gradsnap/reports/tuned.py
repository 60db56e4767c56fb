"""The page of a search for settings: what was found, and when."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradsnap.reports import page, svg
from gradsnap.reports.markup import Markup, markup, tag
from gradsnap.reports.page import Section, note, words
from gradsnap.reports.svg import Frame, Look, Point, Series


@dataclass(frozen=True)
class Search:
    """What a page tells of a search."""

    title: str
    maps: Mapping[str, Sequence[Point]]
    """By layer: seconds since the search began, and the validation MAP of a trial."""
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The trials, the best first."""
    verdict: str
    command: str
    untried: Sequence[str]


def tuned_page(search: Search) -> str:
    """The whole page."""
    found = markup(words(search.verdict), _command(search.command))
    left = page.bullets(search.untried) if search.untried else words("Nothing.")
    return page.page(
        title=search.title,
        heading=search.title,
        lead="Settings were chosen on a validation part, cut from the training part. "
        "The test queries were not looked at.",
        sections=[
            Section("choice", "The choice", found),
            Section("search", "The search", _chart(search)),
            Section("trials", "All trials", _trials(search)),
            Section("untried", "What there was no time for", left),
        ],
        footer=f"Made on {time.strftime('%Y-%m-%d %H:%M')} by gradsnap tune.",
    )


def best_so_far(points: Iterable[Point]) -> list[Point]:
    """The points at which a new best was found, and the last one at its height.

    >>> best_so_far([(1, 0.5), (2, 0.4), (3, 0.6), (4, 0.1)])
    [(1, 0.5), (3, 0.6), (4, 0.6)]
    """
    kept: list[Point] = []
    last = 0.0
    for seconds, height in points:
        last = seconds
        if not kept or height > kept[-1][1]:
            kept.append((seconds, height))
    if kept and kept[-1][0] < last:
        kept.append((last, kept[-1][1]))
    return kept


def _command(line: str) -> Markup:
    return tag("div", tag("pre", line), class_="scroll")


def _chart(search: Search) -> Markup:
    lines = [
        Series(layer, best_so_far(points), Look.numbered(number))
        for number, (layer, points) in enumerate(search.maps.items())
    ]
    most = max((x for line in lines for x, _ in line.points), default=1.0)
    frame = Frame((0.0, most), svg.padded(lines), ("seconds", "MAP of codes"))
    chart = svg.line_chart("Best validation MAP against seconds", frame, lines)
    said = words(
        "The best validation MAP of each layer so far, against the seconds of the "
        "search. Trials grow longer from rung to rung, so a later one has more steps "
        "too. The vertical axis does not begin at 0."
    )
    return page.beside(said, markup(svg.legend(lines), chart))


def _trials(search: Search) -> Markup:
    about = note(
        "MAP of codes and of floats on the validation part, the best first; a run of "
        "fewer steps is a setting of its own. Where two seeds were run, the mean and "
        "its standard error are shown; a single seed may have been lucky. λ is the "
        "strength of snapping, μ the weight of the floats' own loss, K the codewords "
        "of a codebook."
    )
    return markup(about, page.table(search.columns, search.rows))
