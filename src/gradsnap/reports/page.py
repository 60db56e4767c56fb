"""A report: one HTML file with everything inside, opened from disk."""

import contextlib
import importlib.resources
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gradsnap.errors import InputError
from gradsnap.files import make_folder
from gradsnap.reports.findings import Range
from gradsnap.reports.markup import Markup, markup, tag

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""For the browser: load nothing, run nothing; only what stands in the file."""


class Section(NamedTuple):
    """One part of a page."""

    anchor: str
    """The word behind # in an address that leads here."""
    title: str
    body: Markup


def page(
    title: str, heading: str, lead: str, sections: Sequence[Section], footer: str
) -> str:
    """The whole page; it asks for nothing from the network and runs no script.

    Args:
        title: in the browser's tab.
        heading: in large letters above everything.
        lead: what the page is about, in a few sentences.
        sections: in order.
        footer: when and by what it was made.
    """
    style = importlib.resources.files("gradsnap.reports").joinpath("style.css")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", Markup(style.read_text("utf-8"))),
    )
    parts = [
        tag("section", tag("h2", one.title), one.body, id=one.anchor)
        for one in sections
    ]
    body = tag(
        "body",
        tag("header", tag("h1", heading), tag("p", lead)),
        tag("main", *parts),
        tag("footer", footer),
    )
    return f"<!DOCTYPE html>{tag('html', head, body, lang='en')}\n"


@contextlib.contextmanager
def writable_folder(out: Path) -> Iterator[None]:
    """Makes the report's folder and tries it; one that stays empty is removed again.

    Raises:
        InputError: the report could not be written to ``out``.
    """
    if out.exists() and not out.is_dir():
        raise InputError(
            f"cannot write the report to {out}: it is a file, not a folder"
        )
    make_folder(out)
    try:
        with tempfile.TemporaryFile(dir=out):
            pass
        yield
    except OSError as error:
        raise InputError(
            f"cannot write the report to {out}: {error.strerror}"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # a folder with a report in it stays
            out.rmdir()


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Range]]) -> Markup:
    """A table of figures; the first cell of a row is its name.

    A range shows its mean, and below it the least and the most. On a phone each row
    becomes a list, where every cell has its column's name before it.
    """
    head = tag("tr", *(tag("th", name, scope="col") for name in columns))
    lines = []
    for name, *cells in rows:
        shown = [
            tag("td", tag("span", _cell(cell)), data_name=column)
            for column, cell in zip(columns[1:], cells, strict=True)
        ]
        lines.append(tag("tr", tag("th", _cell(name), scope="row"), *shown))
    whole = tag("table", tag("thead", head), tag("tbody", *lines), class_="figures")
    return tag("div", whole, class_="scroll")


def words(*sentences: str) -> Markup:
    """A paragraph."""
    return tag("p", *sentences)


def note(*sentences: str) -> Markup:
    """A paragraph that stands back: how to read what follows."""
    return tag("p", *sentences, class_="soft")


def bullets(items: Sequence[str]) -> Markup:
    """A list of sentences."""
    return tag("ul", *(tag("li", one) for one in items))


def definitions(facts: Mapping[str, str]) -> Markup:
    """Names with what they stand for."""
    pairs = (markup(tag("dt", name), tag("dd", value)) for name, value in facts.items())
    return tag("dl", *pairs)


def figure(title: str, drawing: Markup, caption: str = "") -> Markup:
    """A picture with its name above it and a caption below."""
    below = tag("figcaption", caption) if caption else Markup()
    return tag("figure", tag("h3", title), drawing, below)


def side_by_side(figures: Sequence[Markup]) -> Markup:
    """As many figures in a row as there is room for."""
    return tag("div", *figures, class_="pair" if len(figures) < 3 else "many")


def beside(said: Markup, drawing: Markup) -> Markup:
    """Words, and a figure to their right."""
    return tag("div", tag("div", said), tag("figure", drawing), class_="side")


def _cell(cell: str | Range) -> Markup:
    if isinstance(cell, Range):
        ends = tag("small", f"{cell.least:.3f} – {cell.most:.3f}")
        return markup(f"{cell.mean:.3f} ", ends)
    return markup(cell)
