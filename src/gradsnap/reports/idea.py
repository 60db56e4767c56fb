"""The picture of the idea: one embedding, its gradient, and the codeword it turns to.

    python -m gradsnap.reports.idea docs/pictures/idea.svg

Nothing in it is drawn by hand: the codewords are a quantizer's, and the snapped step is
the layer's own.
"""

import math
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.files import write_text
from gradsnap.layers.snapping import GradientSnapping
from gradsnap.reports.svg import Point

ACROSS = (-2.3, -1.75, -1.2, -0.62, -0.05, 0.66, 1.22, 1.8)
UP = (-1.7, -1.08, -0.62, 0.0, 0.52, 1.04, 1.6, 2.1)
"""Coordinates of the codewords: a product of two codebooks of 8."""

EMBEDDING, GRADIENT = (0.38, -0.34), (0.76, -0.03)
NEIGHBORS = 12

SIDE, SCALE = 300, 120
WIDTH = 680

STYLE = """
svg{font:14px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.card{fill:#fff;stroke:#d9dde3}text{fill:#1a1f27}.soft{fill:#545d6b}
.word{stroke:#9aa3b0;stroke-width:1.5;fill:none}.near{stroke:#1a1f27;stroke-width:2}
.dot{fill:#1a1f27}.loss{stroke:#1f5fae;fill:#1f5fae}.snap{stroke:#b0480f;fill:#b0480f}
.ring{fill:none;stroke:#b0480f;stroke-width:2}.pull{stroke:#b0480f;stroke-dasharray:2 4}
.arrow{stroke-width:3}.head{stroke:none}
@media(prefers-color-scheme:dark){.card{fill:#1a1e24;stroke:#333a44}text{fill:#e8ebef}
.soft{fill:#a6afbc}.word{stroke:#6b7482}.near{stroke:#e8ebef}.dot{fill:#e8ebef}
.loss{stroke:#7fb4f5;fill:#7fb4f5}.snap{stroke:#f2a06a;fill:#f2a06a}
.ring,.pull{stroke:#f2a06a}}
"""


class Idea(NamedTuple):
    """What is drawn, in the coordinates of the embedding."""

    codewords: Tensor
    """(64, 2)."""
    candidates: Tensor
    """(NEIGHBORS, 2)."""
    chosen: Tensor
    """(2,)."""
    snapped: Tensor
    """Δy, (2,)."""


def idea() -> Idea:
    """One gradient, snapped by the layer itself."""
    codewords = torch.cartesian_prod(torch.tensor(ACROSS), torch.tensor(UP))
    quantizer = ProductQuantizer(2, num_codebooks=2, codebook_size=8).fit(codewords)
    layer = GradientSnapping(quantizer, NEIGHBORS)
    y, g = torch.tensor([EMBEDDING]), torch.tensor([GRADIENT])
    snapped = layer.snap(g, y)
    distances, codes = quantizer.candidates(y, NEIGHBORS)
    candidates = quantizer.decode(codes[0])
    slopes = ((y - candidates) * g).sum(dim=1)[None]  # ⟨g, y − c⟩, (1, NEIGHBORS)
    place = int(layer.rule.choose(distances, slopes).place)
    return Idea(codewords, candidates, candidates[place], snapped[0])


def drawing(found: Idea) -> str:
    """The picture as a whole SVG file."""
    y = EMBEDDING
    asked = (y[0] - GRADIENT[0], y[1] - GRADIENT[1])
    step = (y[0] - float(found.snapped[0]), y[1] - float(found.snapped[1]))
    chosen = (float(found.chosen[0]), float(found.chosen[1]))
    (cx, cy), (yx, yy) = _place(chosen), _place(y)
    body = (
        f'<path class="word" d="{_crosses(found.codewords, 3)}"/>'
        f'<path class="word near" d="{_crosses(found.candidates, 4)}"/>'
        f'<path class="pull" d="M{yx:.1f} {yy:.1f}L{cx:.1f} {cy:.1f}"/>'
        f'<circle class="ring" cx="{cx:.1f}" cy="{cy:.1f}" r="10"/>'
        f"{_arrow(_place(y), _place(asked), 'loss')}"
        f"{_arrow(_place(y), _place(step), 'snap')}"
        f'<circle class="dot" cx="{yx:.1f}" cy="{yy:.1f}" r="6"/>'
    )
    return (
        f'<svg xmlns="{_NAMESPACE}" viewBox="0 0 {WIDTH} {SIDE}" role="img">'
        f"<title>{TITLE}</title><style>{STYLE.strip()}</style>"
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{SIDE - 1}" '
        f'rx="12"/><svg width="{SIDE + 40}" height="{SIDE}">{body}</svg>{_legend()}'
        "</svg>\n"
    )


_NAMESPACE = "http://www.w3.org/2000/svg"
TITLE = (
    "An embedding among codewords. The step that the loss asks for ends between "
    "codewords; the snapped step is turned toward a codeword that lies down-hill."
)
LEGEND = (
    ("dot", "an embedding", "what the network made of an image"),
    ("near", "its nearest codewords", "places that a short code can name"),
    ("loss", "the step the loss asks for", "against the gradient"),
    ("ring", "the codeword that agrees best", "near, and down-hill for the loss"),
    ("snap", "the snapped step", "what the network takes instead"),
)


def _legend() -> str:
    body = ""
    for row, (look, name, words) in enumerate(LEGEND):
        y = 42 + 52 * row
        x = SIDE + 74
        body += _symbol(look, x, y)
        body += f'<text x="{x + 32}" y="{y}" font-weight="600">{name}</text>'
        body += f'<text x="{x + 32}" y="{y + 19}" class="soft">{words}</text>'
    return body


def _symbol(look: str, x: float, y: float) -> str:
    y += 4
    if look == "dot":
        return f'<circle class="dot" cx="{x}" cy="{y}" r="6"/>'
    if look == "ring":
        return f'<circle class="ring" cx="{x}" cy="{y}" r="9"/>'
    if look == "near":
        return f'<path class="word near" d="{_cross((x, y), 4)}"/>'
    return _arrow((x - 16, y), (x + 16, y), look)


def _arrow(start: Point, end: Point, look: str) -> str:
    """A line with a head, in places of the picture; both are filled alike."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    neck = (end[0] - 9 * math.cos(angle), end[1] - 9 * math.sin(angle))
    wings = [
        (end[0] - 13 * math.cos(angle + turn), end[1] - 13 * math.sin(angle + turn))
        for turn in (0.42, -0.42)
    ]
    head = "L".join(f"{x:.1f} {y:.1f}" for x, y in (end, *wings))
    return (
        f'<path class="arrow {look}" d="M{start[0]:.1f} {start[1]:.1f}'
        f'L{neck[0]:.1f} {neck[1]:.1f}"/><path class="head {look}" d="M{head}Z"/>'
    )


def _crosses(points: Tensor, size: float) -> str:
    return "".join(_cross(_place((x, y)), size) for x, y in points.tolist())


def _cross(place: Point, size: float) -> str:
    x, y = place
    return f"M{x - size:.1f} {y:.1f}h{2 * size}m{-size} {-size}v{2 * size}"


def _place(point: Point) -> Point:
    """From the embedding's coordinates to the picture's."""
    return (SIDE + 40) / 2 + SCALE * point[0], SIDE / 2 - SCALE * point[1]


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), drawing(idea()))
