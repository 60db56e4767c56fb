"""The demo's record and its report: words around tables, charts and pictures."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradsnap.demo.demo import SIDES, DemoSettings, Findings, Row, Side, findings
from gradsnap.files import write_text
from gradsnap.reports import page, svg
from gradsnap.reports.findings import Contrast, Range, added_up, mean_curve
from gradsnap.reports.gallery import Pictures, gallery, hard_queries
from gradsnap.reports.markup import Markup, markup
from gradsnap.reports.page import Section, note, words
from gradsnap.reports.scatter import flatten, scatter
from gradsnap.reports.svg import Frame, Look, Series

LOOKS = {layer: Look.numbered(number) for number, layer in enumerate(SIDES)}
CURVES = {
    "loss": "Triplet loss of a batch",
    "relative_error": "Quantization error of a batch",
    "code_map": "MAP of codes, validation",
}
"""What is drawn against the steps, and what it is called."""


def run_demo(out: Path, settings: DemoSettings) -> Findings:
    """Trains, measures, and writes ``out/index.html``, whole or not at all.

    Raises:
        InputError: the report could not be written to ``out``; found out first.
    """
    with page.writable_folder(out):
        found = findings(settings)
        write_text(out / "index.html", report(found))
    return found


def record(found: Findings) -> dict[str, Any]:
    """What was found as plain values, for JSON."""
    against_bits = {
        side.name: {bits: one._asdict() for bits, one in side.code_maps().items()}
        for side in found.sides.values()
    }
    return {
        "data": found.card["dataset"],
        "bits": found.settings.bits,
        "seeds": found.settings.seeds,
        "steps": found.settings.steps,
        "rows": [side.row.record() for side in found.sides.values()],
        "code_map_against_bits": against_bits,
        "verdict": _verdict(found),
        "verdict_against_bits": _on_bits(found),
        "protocol": found.card,
        "seconds": round(found.seconds, 1),
    }


def report(found: Findings) -> str:
    """The whole page."""
    row, now = found.sides["snapping"].row, time.strftime("%Y-%m-%d %H:%M")
    return page.page(
        title=f"gradsnap: digits by {found.settings.bits}-bit codes",
        heading="The same network, with and without gradient snapping",
        lead=f"Images of handwritten digits are searched by codes of "
        f"{row.bytes_a_vector:g} bytes, which stand for embeddings of "
        f"{row.float_bytes_a_vector} bytes. The code's reconstruction is not the "
        "embedding, and ranking by it may lose accuracy. Gradient snapping turns each "
        "training step toward a nearby codeword, so that less is lost.",
        sections=[
            Section(anchor, title, section(found))
            for anchor, (title, section) in SECTIONS.items()
        ],
        footer=f"Made in {found.seconds:.0f} seconds on {now} by "
        f"{found.card['version']}.",
    )


def cells(row: Row) -> dict[str, str | Range]:
    """One side's line of the table, by the names of the columns."""
    return {
        "network": row.name,
        "float MAP": row.float_map,
        "code MAP": row.code_map,
        "quantization error": row.relative_error,
        "bytes a vector": f"{row.bytes_a_vector:g}",
        "ms a query": f"{row.milliseconds_a_query:.3f}",
        "learning rate": f"{row.learning_rate:g}",
    }


def verdict(plain: Row, snapped: Row, seeds: int) -> list[str]:
    """Sentences on quantization error, on MAP, and on codes beside floats."""

    def on_error(before: float, after: float) -> str:
        word = "less" if after < before else "more"
        return f"codes lose {abs(1 - after / before):.0%} {word}"

    def on_map(before: float, after: float) -> str:
        return f"codes rank {'better' if after > before else 'worse'}"

    sides = Contrast(SIDES["plain"], SIDES["snapping"], seeds)
    errors = plain.relative_error, snapped.relative_error
    maps = plain.code_map, snapped.code_map
    lost = plain.float_map.mean - plain.code_map.mean
    on_floats = (
        f"codes rank worse than floats, by {lost:.3f} of MAP."
        if lost > 0
        else "codes already rank as well as floats or better: with few, seen classes "
        "quantization removes noise, and little is left to gain in MAP."
    )
    return [
        sides.sentence("Quantization error", *errors, on_error),
        sides.sentence("MAP of codes", *maps, on_map),
        f"Without snapping, {on_floats}",
    ]


def _verdict(found: Findings) -> list[str]:
    plain, snapped = found.sides.values()
    return verdict(plain.row, snapped.row, found.settings.seeds)


def _on_bits(found: Findings) -> str:
    plain, snapped = found.sides.values()
    sides = Contrast(plain.name, snapped.name, found.settings.seeds)
    return sides.on_bits(plain.code_maps(), snapped.code_maps())


def _results(found: Findings) -> Markup:
    rows = [cells(side.row) for side in found.sides.values()]
    plain = found.sides["plain"].row
    return markup(
        note(
            f"Mean over {_seeds(found)}, with the least and the most of them below. "
            "MAP: larger is better, 1 is perfect. Quantization error: mean squared "
            "distance from embedding to reconstruction over the variance of the "
            "embeddings; smaller is better."
        ),
        page.table(list(rows[0]), [list(row.values()) for row in rows]),
        page.bullets(_verdict(found)),
        note(
            f"Floats take {plain.float_bytes_a_vector} bytes a vector and "
            f"{plain.float_milliseconds_a_query:.3f} ms a query (exhaustive, in "
            "torch); both times are of one thread, all queries in one call, without "
            "embedding. So small a database says little about speed."
        ),
    )


def _embeddings(found: Findings) -> Markup:
    introduction = note(
        "Dots are embeddings of database images, coloured and named by digit; crosses "
        "are the codewords' sums that their codes stand for; a line joins the two. "
        "Shorter lines are better codes. Each picture shows its own two widest "
        "directions (PCA), each at its own scale."
    )
    figures = [_embedding(side) for side in found.sides.values()]
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


def _bits(found: Findings) -> Markup:
    lengths = found.settings.lengths
    lines = []
    for layer, side in found.sides.items():
        look, dotted = LOOKS[layer], LOOKS[layer]._replace(dash=2)
        maps = [(float(bits), one.mean) for bits, one in side.code_maps().items()]
        level = [(end, side.row.float_map.mean) for end in (lengths[0], lengths[-1])]
        lines.append(Series(side.name, maps, look))
        lines.append(Series(f"floats, {side.name}", level, dotted, marked=False))
    across = (lengths[0] - 1, lengths[-1] + 1)
    frame = Frame(across, svg.padded(lines), ("bits a vector", "MAP"))
    chart = svg.line_chart("MAP of codes against bits", frame, lines, lengths)
    said = words(
        f"The two networks were trained for {found.settings.bits}-bit codes. For the "
        "other lengths only new codebooks were fitted to the same embeddings, which "
        "takes moments; a network trained for each length could do better. The "
        "vertical axis does not begin at 0."
    )
    drawing = markup(svg.legend(lines), chart)
    return page.beside(markup(said, words(_on_bits(found))), drawing)


def _queries(found: Findings) -> Markup:
    top = found.settings.top
    plain, snapped = (side.runs[0] for side in found.sides.values())
    rankings = {
        "floats": plain.nearest_by_floats(top),
        "codes without": plain.nearest_by_codes(top),
        "codes with": snapped.nearest_by_codes(top),
    }
    scores = plain.scores.floats, plain.scores.codes, snapped.scores.codes
    precision = torch.stack([one.average_precisions for one in scores]).mean(dim=0)
    queries = Pictures(255 - found.query_images, _digits(plain.queries.labels))
    database = Pictures(255 - found.images, _digits(plain.database.labels))
    introduction = note(
        "Of each digit the query that is harder than nine in ten of its digit's "
        "queries, by the mean of the three rankings' average precisions, for easier "
        f"ones show less. The first {top} results, nearest first: by floats of the "
        "network without snapping, by its codes, and by codes of the network with "
        "snapping. A wrong digit has a dashed frame, a ✗ and its name."
    )
    shown = hard_queries(precision, queries.classes)
    return markup(introduction, gallery(queries, database, rankings, shown))


def _conformity(found: Findings) -> Markup:
    """The logged histograms of all seeds, added up."""
    runs = [run.records for run in found.sides["snapping"].runs]
    counts = added_up(runs, "conformity_histogram") or [0, 0]
    above = f"{sum(counts[len(counts) // 2 :]) / (sum(counts) or 1):.0%}"
    title = f"Histogram of the conformity from −1 to 1; {above} lie above 0."
    said = words(
        "The cosine between a row's loss gradient and the direction away from the "
        "codeword it was snapped to. Above 0, descending the loss also nears the "
        "codeword, and the gradient is turned; at 0 or below, snapping is rejected. "
        f"{above} of {sum(counts):,} logged rows lie above 0."
    )
    axes = (-1, 1), ("conformity", "rows, %")
    return page.beside(said, svg.histogram(title, counts, *axes, LOOKS["snapping"]))


def _curves(found: Findings) -> Markup:
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
        f"Mean over {_seeds(found)}, each side at its own learning rate. The first "
        "fifth is a warm-up without codebooks, so there is no quantization error yet."
    )
    return markup(introduction, svg.legend(lines), page.side_by_side(figures))


def _protocol(found: Findings) -> Markup:
    card, settings = found.card, found.settings
    rates = "; ".join(
        f"{side.name}: "
        + ", ".join(f"{rate:g} → {best:.4f}" for rate, best in side.validation.items())
        for side in found.sides.values()
    )
    facts = {
        "data": "scikit-learn's digits, 8 × 8 pixels, ten classes",
        "split": f"{card['training']} training images, {card['validation']} for "
        f"validation, {card['queries']} queries, {card['database']} in the database "
        f"(without training images); hash {card['split_hashes'][0]}",
        "ranking": str(card["rules"]),
        "network": "64 pixels, 128 hidden units, embedding of 32; triplet loss; SGD, "
        f"{settings.steps} steps of 96 images, cosine schedule",
        "codes": f"product quantizer, {settings.bits // 4} codebooks of 16 codewords, "
        "fitted to the database when training is over, on both sides alike",
        "learning rates": "of each side the one whose codes rank best on the "
        f"validation part, mean over seeds; the queries were not looked at. {rates}",
        "step": "of each run the one whose codes rank best on the validation part",
        "seeds": f"0 to {settings.seeds - 1}, of weights and batches; one split, so "
        "the ranges do not tell how much another split would change",
    }
    same = {name: str(card[name]) for name in ("machine", "command", "version")}
    return page.definitions(facts | same)


def _digits(labels: Tensor) -> list[str]:
    return [str(label) for label in labels.tolist()]


def _seeds(found: Findings) -> str:
    return f"{found.settings.seeds} seeds" if found.settings.seeds > 1 else "one seed"


SECTIONS = {
    "results": ("Results", _results),
    "embeddings": ("Embeddings and their reconstructions", _embeddings),
    "bits": ("MAP against bits", _bits),
    "queries": ("Ten queries and what they find", _queries),
    "conformity": ("Conformity", _conformity),
    "curves": ("Training", _curves),
    "protocol": ("How it was measured", _protocol),
}
"""The page's parts by their anchors, in order."""
