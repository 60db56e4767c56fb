"""Embeddings with their reconstructions, flattened to two dimensions."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.reports.markup import Markup, markup, tag
from gradsnap.reports.svg import WIDTH, Look, Point, picture, text

SIDE = WIDTH
ROOM = 14
APART = 18
"""Least distance of two classes' names, in the picture's units."""
SHOWN = 500
"""Items drawn; more would hide one another."""


class Flat(NamedTuple):
    """Rows seen along their two widest directions."""

    embeddings: Tensor
    """(n, 2)."""
    reconstructions: Tensor
    """(n, 2), by the same map."""
    share: float
    """Of the embeddings' variance that two dimensions keep."""


def flatten(embeddings: Tensor, reconstructions: Tensor) -> Flat:
    """PCA of embeddings (n, dim); reconstructions (n, dim) go the same way."""
    mean = embeddings.mean(dim=0)
    centred = (embeddings - mean).double()
    _, sizes, directions = torch.linalg.svd(centred, full_matrices=False)
    plane = directions[:2].T  # (dim, 2)
    share = float(sizes[:2].square().sum() / sizes.square().sum())
    return Flat(centred @ plane, (reconstructions - mean).double() @ plane, share)


def scatter(title: str, flat: Flat, classes: Sequence[str]) -> Markup:
    """Dots for embeddings, crosses for reconstructions, lines between the two.

    Args:
        title: for those who do not see it.
        flat: n rows.
        classes: the names of the n rows' classes; each has its colour, and its name at
            its middle, so that colour is not needed.
    """
    both = torch.cat([flat.embeddings, flat.reconstructions])
    least, most = both.min(dim=0).values, both.max(dim=0).values
    scale = (SIDE - 2 * ROOM) / (most - least).clamp_min(1e-9).max()
    margin = (SIDE - (most - least) * scale) / 2
    points = (flat.embeddings - least) * scale + margin
    ends = (flat.reconstructions - least) * scale + margin
    names = sorted(set(classes))
    number = {name: place for place, name in enumerate(names)}
    labels = torch.tensor([number[name] for name in classes])
    step = max(1, len(points) // SHOWN)
    marks = _marks(points[::step], ends[::step], labels[::step])
    return picture(title, marks, _names(points, labels, names), height=SIDE)


def _marks(points: Tensor, ends: Tensor, labels: Tensor) -> Markup:
    """Lines to the reconstructions, dots, and the reconstructions themselves."""
    links, dots = [], []
    for label in labels.unique().tolist():
        own, css = labels == label, Look(label).css
        from_to = torch.cat([points[own], ends[own]], dim=1).tolist()  # (n, 4)
        line = "".join(f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" for x, y, u, v in from_to)
        dot = "".join(f"M{x:.1f} {y:.1f}h0" for x, y, _, _ in from_to)
        links.append(tag("path", class_=f"link {css}", d=line))
        dots.append(tag("path", class_=f"dot {css}", d=dot))
    crosses = "".join(
        f"M{x - 2.5:.1f} {y:.1f}h5m-2.5 -2.5v5"
        for x, y in ends.round(decimals=1).unique(dim=0).tolist()
    )
    return markup(*links, *dots, tag("path", class_="cross", d=crosses))


def _names(points: Tensor, labels: Tensor, names: Sequence[str]) -> Markup:
    """Each class's name at its middle, or a little below where another stands."""
    places: list[Point] = []
    for label in range(len(names)):
        x, y = points[labels == label].median(dim=0).values.tolist()
        while any(math.dist((x, y), other) < APART for other in places):
            y += 2
        places.append((x, y))
    return markup(
        *(
            text((x, y + 6), name, "class")
            for (x, y), name in zip(places, names, strict=True)
        )
    )
