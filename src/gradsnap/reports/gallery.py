"""Queries with what each ranking found first, as pictures, right or wrong."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from gradsnap.reports.markup import Markup, markup, tag

TINY = 32
"""Pixels of a side below which each pixel is shown as a square, not blurred."""


class Pictures(NamedTuple):
    """Images and the names of their classes."""

    images: Tensor
    """uint8 (n, 1, height, width), or 3 channels."""
    classes: Sequence[str]
    """One for each image."""


def hard_queries(
    precision: Tensor, classes: Sequence[str], harder_than: float = 0.9
) -> list[int]:
    """Of each class the query that is harder than a share of the others.

    Args:
        precision: average precision of each query, (q,); where rankings are compared,
            the mean of theirs favours none of them.
        classes: of each query.
        harder_than: the share; easier ones show less, the hardest may be an oddity.

    Example:
        >>> hard_queries(torch.tensor([0.9, 0.1, 0.5, 0.7]), "abaa", harder_than=0.5)
        [3, 1]
    """
    chosen = []
    for name in sorted(set(classes)):
        own = torch.tensor([place for place, one in enumerate(classes) if one == name])
        easiest_first = precision[own].argsort(descending=True, stable=True)
        chosen.append(int(own[easiest_first[int(harder_than * len(own))]]))
    return chosen


def gallery(
    queries: Pictures,
    database: Pictures,
    rankings: Mapping[str, Tensor],
    shown: Sequence[int],
) -> Markup:
    """Each query shown, beside it a strip of results for each ranking.

    Args:
        queries: all of them.
        database: what was searched.
        rankings: places (q, top) in the database, nearest first, by their names.
        shown: places of the queries that are shown.
    """
    cards = []
    for query in shown:
        wanted = queries.classes[query]
        asked = image(queries.images[query], f"query: {wanted}")
        strips = [
            _strip(name, database, places[query].tolist(), wanted)
            for name, places in rankings.items()
        ]
        left = tag("div", asked, tag("span", f"query: {wanted}"), class_="asked")
        right = tag("div", *strips, class_="strips")
        cards.append(tag("article", left, right, class_="query"))
    return tag("div", *cards, class_="queries")


def image(pixels: Tensor, words: str) -> Markup:
    """An image (1 or 3, height, width) as an ``img`` with its bytes inside."""
    shown = pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(shown.numpy()).save(buffer, "PNG", optimize=True)
    source = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    tiny = "tiny" if max(pixels.shape[1:]) < TINY else None
    return tag("img", src=source, alt=words, class_=tiny)


def _strip(name: str, database: Pictures, places: Sequence[int], wanted: str) -> Markup:
    wrong = sum(database.classes[place] != wanted for place in places)
    count = f"{wrong} wrong" if wrong else "all right"
    results = [
        _result(database.images[place], database.classes[place], wanted)
        for place in places
    ]
    title = tag("h4", f"{name} ", tag("small", count))
    return tag("div", title, tag("ol", *results, class_="results"), class_="strip")


def _result(pixels: Tensor, found: str, wanted: str) -> Markup:
    if found == wanted:
        return tag("li", image(pixels, found))
    mistake = markup(image(pixels, f"wrong: {found}"), tag("b", f"✗ {found}"))
    return tag("li", mistake, class_="wrong")
