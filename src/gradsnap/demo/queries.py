"""Ten queries with what each ranking found first, as pictures."""

import base64
import io
from html import escape
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from gradsnap.demo.figures import nearest
from gradsnap.demo.findings import Findings
from gradsnap.index import ExhaustiveIndex


class Shown(NamedTuple):
    """One query and its results."""

    query: int
    """Its place among the queries."""
    label: int
    results: dict[str, list[int]]
    """Places in the database, nearest first, by the name of the ranking."""


HARDER_THAN = 0.9
"""The share of its class's queries that a query shown is harder than."""


def chosen_queries(found: Findings) -> list[Shown]:
    """Of each class the query that is harder than nine in ten of the others.

    None of the three rankings is favoured: how hard a query is says the mean of their
    average precisions.
    """
    plain, snapped = found.measured["plain"][0], found.measured["snapping"][0]
    evaluations = plain.scores.floats, plain.scores.codes, snapped.scores.codes
    precision = torch.stack([one.average_precisions for one in evaluations]).mean(dim=0)
    labels = plain.queries.labels
    rankings = _rankings(found)
    shown = []
    for label in labels.unique().tolist():
        own = (labels == label).nonzero()[:, 0]
        easiest_first = precision[own].argsort(descending=True, stable=True)
        query = int(own[easiest_first[int(HARDER_THAN * len(own))]])
        results = {name: places[query].tolist() for name, places in rankings.items()}
        shown.append(Shown(query, label, results))
    return shown


def _rankings(found: Findings) -> dict[str, Tensor]:
    """Places (q, top) in the database by each ranking, first seed."""
    top = found.settings.top
    plain, snapped = found.measured["plain"][0], found.measured["snapping"][0]
    ranked = {
        "floats": nearest(plain.queries.rows, plain.database.rows, top),
    }
    for name, one in (("codes without", plain), ("codes with", snapped)):
        index = ExhaustiveIndex(one.quantizer).add(one.database.rows)
        found_ids = index.search(one.queries.rows, top).ids
        ranked[name] = torch.as_tensor(found_ids)
    return ranked


def query_cards(found: Findings) -> str:
    """The queries as HTML, each with a strip of results for each ranking."""
    labels = found.measured["plain"][0].database.labels.tolist()
    return "".join(
        f'<article class="query"><div class="asked">'
        f"{digit(found.query_images[one.query], f'query, a {one.label}')}"
        f"<span>query: {one.label}</span></div>{_strips(found, one, labels)}</article>"
        for one in chosen_queries(found)
    )


def _strips(found: Findings, shown: Shown, labels: list[int]) -> str:
    body = ""
    for name, places in shown.results.items():
        wrong = sum(labels[place] != shown.label for place in places)
        items = "".join(
            _result(found.images[place], labels[place], shown.label) for place in places
        )
        told = f"{wrong} wrong" if wrong else "all right"
        body += (
            f'<div class="strip"><h4>{escape(name)} <small>{told}</small></h4>'
            f'<ol class="results">{items}</ol></div>'
        )
    return f'<div class="strips">{body}</div>'


def _result(image: Tensor, label: int, wanted: int) -> str:
    if label == wanted:
        return f"<li>{digit(image, f'a {label}')}</li>"
    return f'<li class="wrong">{digit(image, f"wrong: a {label}")}<b>✗ {label}</b></li>'


def digit(image: Tensor, told: str) -> str:
    """A grey image (1, h, w), dark on light, as an ``img`` with its bytes inside."""
    buffer = io.BytesIO()
    Image.fromarray(255 - image[0].numpy()).save(buffer, "PNG", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{escape(told, quote=True)}">'
