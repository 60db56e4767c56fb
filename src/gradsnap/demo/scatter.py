"""Embeddings with their reconstructions, flattened to two dimensions."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.demo.figures import Measured
from gradsnap.demo.svg import WIDTH, Point, picture, text

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


def scatter(measured: Measured, name: str) -> tuple[str, float]:
    """The picture of the database's first items, and the share of variance it keeps."""
    rows, quantizer = measured.database.rows, measured.quantizer
    flat = flatten(rows, quantizer.decode(quantizer.encode(rows)))
    both = torch.cat([flat.embeddings, flat.reconstructions])
    least, most = both.min(dim=0).values, both.max(dim=0).values
    scale = (SIDE - 2 * ROOM) / (most - least).clamp_min(1e-9).max()
    margin = (SIDE - (most - least) * scale) / 2
    points = (flat.embeddings - least) * scale + margin
    ends = (flat.reconstructions - least) * scale + margin
    labels = measured.database.labels
    step = max(1, len(rows) // SHOWN)
    body = _drawn(points[::step], ends[::step], labels[::step])
    body += _names(points, labels)
    return picture(_title(name, measured, flat.share), body, height=SIDE), flat.share


def _drawn(points: Tensor, ends: Tensor, labels: Tensor) -> str:
    """Lines to the reconstructions, dots, and the reconstructions themselves."""
    layers = {"link": "", "dot": ""}
    for label in labels.unique().tolist():
        own = labels == label
        pairs = zip(points[own].tolist(), ends[own].tolist(), strict=True)
        dots, links = "", ""
        for (x, y), (to_x, to_y) in pairs:
            dots += f"M{x:.1f} {y:.1f}h0"
            links += f"M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"
        layers["link"] += f'<path class="link class{label}" d="{links}"/>'
        layers["dot"] += f'<path class="dot class{label}" d="{dots}"/>'
    crosses = "".join(
        f"M{x - 2.5:.1f} {y:.1f}h5m-2.5 -2.5v5"
        for x, y in ends.round(decimals=1).unique(dim=0).tolist()
    )
    return f'{layers["link"]}{layers["dot"]}<path class="cross" d="{crosses}"/>'


def _names(points: Tensor, labels: Tensor) -> str:
    """Each class's digit at its middle, so that colour is not needed."""
    places: list[Point] = []
    body = ""
    for label in labels.unique().tolist():
        x, y = points[labels == label].median(dim=0).values.tolist()
        while any(math.dist((x, y), other) < APART for other in places):
            y += 2
        places.append((x, y))
        body += text((x, y + 6), str(label), "digit")
    return body


def _title(name: str, measured: Measured, share: float) -> str:
    return (
        f"Embeddings {name} as dots, their reconstructions as crosses, in the two "
        f"widest directions, which hold {share:.0%} of the variance. Quantization "
        f"error {measured.scores.relative_error:.3f}."
    )
