"""The pictures of the demo's page, with the words that explain them."""

import torch
from torch import Tensor

from gradsnap.demo.demo import Findings
from gradsnap.demo.measured import Side
from gradsnap.demo.settings import SIDES
from gradsnap.reports import page, svg
from gradsnap.reports.findings import added_up, mean_curve
from gradsnap.reports.gallery import Pictures, gallery, hard_queries
from gradsnap.reports.markup import Markup, markup
from gradsnap.reports.page import note
from gradsnap.reports.scatter import flatten, scatter
from gradsnap.reports.svg import Frame, Look, Series

LOOKS = {layer: Look.numbered(number) for number, layer in enumerate(SIDES)}
CURVES = {
    "loss": "Loss of a batch",
    "relative_error": "Quantization error of a batch",
    "code_map": "MAP of codes, validation",
}
"""What is drawn against the steps, and what it is called."""


def chart_of_lengths(found: Findings) -> Markup:
    """MAP of codes and floats of every side against bits, with a legend."""
    lines = []
    for layer, side in found.sides.items():
        rows = {float(bits): row for bits, row in side.rows.items()}
        codes = [(bits, row.code_map.mean) for bits, row in rows.items()]
        floats = [(bits, row.float_map.mean) for bits, row in rows.items()]
        dotted = LOOKS[layer]._replace(dash=2)
        lines.append(Series(side.name, codes, LOOKS[layer]))
        lines.append(Series(f"floats, {side.name}", floats, dotted, marked=False))
    lengths = found.settings.lengths
    across = (min(lengths) - 1, max(lengths) + 1)
    frame = Frame(across, svg.padded(lines), ("bits a vector", "MAP"))
    chart = svg.line_chart("MAP of codes against bits", frame, lines, lengths)
    return markup(svg.legend(lines), chart)


def embeddings(found: Findings) -> Markup:
    """Embeddings with their reconstructions, without snapping and through codes."""
    introduction = note(
        "Dots are embeddings of database images, coloured and named by digit; crosses "
        "are the codewords' sums that their codes stand for; a line joins the two. "
        "Shorter lines are better codes, and so are crosses that one digit has for "
        "itself. Each picture shows its own two widest directions (PCA), each at its "
        "own scale."
    )
    figures = [_embedding(found.sides[layer]) for layer in ("plain", "codes")]
    return markup(introduction, page.side_by_side(figures))


def _embedding(side: Side) -> Markup:
    run = side.runs[0]
    rows = run.database.rows
    flat = flatten(rows, run.coder.decode(run.coder.encode(rows)))
    caption = (
        f"Error {run.scores.relative_error:.3f}; two of {rows.shape[1]} dimensions, "
        f"{flat.share:.0%} of the variance."
    )
    title = f"Embeddings {side.name} as dots, reconstructions as crosses. {caption}"
    drawing = scatter(title, flat, _digits(run.database.labels))
    return page.figure(side.name.capitalize(), drawing, caption)


def queries(found: Findings) -> Markup:
    """Queries as pictures, with what floats and codes find."""
    top = found.settings.top
    plain, codes = (found.sides[layer].runs[0] for layer in ("plain", "codes"))
    rankings = {
        "floats": plain.nearest_by_floats(top),
        "codes without snapping": plain.nearest_by_codes(top),
        "codes, trained through": codes.nearest_by_codes(top),
    }
    scores = plain.scores.floats, plain.scores.codes, codes.scores.codes
    precision = torch.stack([one.average_precisions for one in scores]).mean(dim=0)
    queries = Pictures(255 - found.query_images, _digits(plain.queries.labels))
    database = Pictures(255 - found.images, _digits(plain.database.labels))
    introduction = note(
        "Of each digit the query that is harder than nine in ten of its digit's "
        "queries, by the mean of the three rankings' average precisions, for easier "
        f"ones show less. The first {top} results, nearest first: by floats of the "
        "network without snapping, by its codes, and by codes of the network trained "
        "through codes. A wrong digit has a dashed frame, a ✗ and its name. Items of "
        "one code are equally near, and stand in the order of the database."
    )
    shown = hard_queries(precision, queries.classes)
    return markup(introduction, gallery(queries, database, rankings, shown))


def conformity(found: Findings) -> Markup:
    """How far loss and codewords agree, of both sides that snap."""
    introduction = note(
        "The cosine between a row's loss gradient and the direction away from the "
        "codeword it was snapped to. Above 0, descending the loss also nears the "
        "codeword, and the gradient is turned; at 0 or below, snapping is rejected."
    )
    figures = [_histogram(found, layer) for layer in ("snapping", "codes")]
    return markup(introduction, page.side_by_side(figures))


def _histogram(found: Findings, layer: str) -> Markup:
    """The logged histograms of all seeds, added up."""
    side = found.sides[layer]
    runs = [run.records for run in side.runs]
    counts = added_up(runs, "conformity_histogram") or [0, 0]
    above = f"{sum(counts[len(counts) // 2 :]) / (sum(counts) or 1):.0%}"
    title = f"Histogram of the conformity from −1 to 1; {above} lie above 0."
    axes = (-1, 1), ("conformity", "rows, %")
    drawing = svg.histogram(title, counts, *axes, LOOKS[layer])
    caption = f"{above} of {sum(counts):,} logged rows lie above 0."
    return page.figure(side.name.capitalize(), drawing, caption)


def curves(found: Findings) -> Markup:
    """What the runs logged, against the steps."""
    figures: list[Markup] = []
    lines: list[Series] = []
    for key, name in CURVES.items():
        lines = []
        for layer, side in found.sides.items():
            curve = mean_curve([run.records for run in side.runs], key)
            lines.append(Series(side.name, curve, LOOKS[layer], marked=False))
        frame = Frame((0, found.settings.steps), svg.padded(lines), ("step", ""))
        chart = svg.line_chart(f"{name} against steps", frame, lines)
        figures.append(page.figure(name, chart))
    introduction = note(
        f"Mean over {found.settings.runs}, each side at its own learning rate. The "
        "first quarter is a warm-up without codebooks, so there is no quantization "
        "error yet. Through codes the loss is that of items as codes, with μ times "
        "that of floats: another sum, to be read by its course alone."
    )
    return markup(introduction, svg.legend(lines), page.side_by_side(figures))


def _digits(labels: Tensor) -> list[str]:
    return [str(label) for label in labels.tolist()]
