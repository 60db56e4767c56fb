"""The demo's record and its report: words around tables, charts and pictures."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from gradsnap.demo import pictures
from gradsnap.demo.demo import Findings, findings
from gradsnap.demo.measured import Row
from gradsnap.demo.served import write_index
from gradsnap.demo.settings import (
    DemoSettings,
    codebook_size,
    length_in_words,
)
from gradsnap.demo.verdicts import (
    at_length,
    heading,
    verdict,
    verdict_on_lengths,
    where_it_ends,
)
from gradsnap.files import write_text
from gradsnap.reports import page
from gradsnap.reports.findings import Range
from gradsnap.reports.markup import Markup, markup
from gradsnap.reports.page import Section, note, words


def run_demo(out: Path, settings: DemoSettings) -> Findings:
    """Trains, measures, and writes ``out/index.html``, whole or not at all.

    Beside it an index of the digits, for ``gradsnap serve``.

    Raises:
        InputError: the report could not be written to ``out``; found out first.
    """
    with page.writable_folder(out):
        found = findings(settings)
        write_index(found, out)
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
        "verdict_against_bits": " ".join(_on_lengths(found)),
        "protocol": found.card,
        "seconds": round(found.seconds, 1),
    }


def report(found: Findings) -> str:
    """The whole page."""
    now, settings = time.strftime("%Y-%m-%d %H:%M"), found.settings
    rows = at_length(found.sides, settings.bits)
    plain, codes = (found.sides[layer].code_maps() for layer in ("plain", "codes"))
    return page.page(
        title=f"gradsnap: digits by codes of {length_in_words(settings.bits)}",
        heading=heading(rows, settings.bits, settings.seeds),
        lead=f"Images of handwritten digits are searched by codes of "
        f"{length_in_words(settings.bits)}, which stand for embeddings of "
        f"{rows['plain'].float_bytes_a_vector} bytes. The same network is trained "
        "without snapping; with snapping, which turns each gradient toward a nearby "
        "codeword; and through codes, where the loss sees items as their codes say "
        f"they are, and their gradients are snapped. "
        f"{where_it_ends(plain, codes, settings.seeds)}",
        sections=[
            Section(anchor, title, section(found))
            for anchor, (title, section) in SECTIONS.items()
        ],
        footer=f"Made in {found.seconds:.0f} seconds on {now} by "
        f"{found.card['version']}.",
    )


def cells(row: Row) -> dict[str, str | Range]:
    """One side's line of the table, by the names of the columns."""
    weights = [f"{one:g}" for one in (row.strength, row.mixture) if one]
    return {
        "network": row.name,
        "float MAP": row.float_map,
        "code MAP": row.code_map,
        "quantization error": row.relative_error,
        "ms a query": f"{row.milliseconds_a_query:.3f}",
        "rate": f"{row.learning_rate:g}",
        "λ, μ": ", ".join(weights) or "–",
    }


def _verdict(found: Findings) -> list[str]:
    rows = at_length(found.sides, found.settings.bits)
    return verdict(rows, found.settings.seeds)


def _on_lengths(found: Findings) -> list[str]:
    return verdict_on_lengths(found.sides, found.settings.seeds)


def _results(found: Findings) -> Markup:
    rows = [cells(side.row) for side in found.sides.values()]
    plain = found.sides["plain"].row
    return markup(
        note(
            f"Mean over {found.settings.runs}, with the least and the most of them "
            "below. MAP: larger is better, 1 is perfect. Quantization error: mean "
            "squared distance from embedding to reconstruction over the variance of "
            "the embeddings; smaller is better. Learning rate, λ (how much of the "
            "loss's own gradient is kept) and μ (weight of the floats' loss beside "
            "the codes') were chosen on a validation part."
        ),
        page.table(list(rows[0]), [list(row.values()) for row in rows]),
        page.bullets(_verdict(found)),
        note(
            f"Codes take {plain.bytes_a_vector:g} bytes a vector, floats "
            f"{plain.float_bytes_a_vector} and "
            f"{plain.float_milliseconds_a_query:.3f} ms a query (exhaustive, in "
            "torch); both times are of one thread, all queries in one call, without "
            "embedding. So small a database says little about speed."
        ),
    )


def _lengths(found: Findings) -> Markup:
    columns = ["bits", *(f"codes {side.name}" for side in found.sides.values())]
    rows: list[list[str | Range]] = [
        [
            _layout(bits),
            *(side.rows[bits].code_map for side in found.sides.values()),
            found.sides["plain"].rows[bits].float_map,
        ]
        for bits in found.settings.lengths
    ]
    said = words(
        "Every point is a network trained for its own length, with what was chosen at "
        f"{found.settings.bits} bits. Dotted: the same networks' floats. What a plain "
        "network's codes lose to its floats is what there is to gain: much where "
        "codewords are fewer than classes need, little or nothing where they are "
        "plenty. The vertical axis does not begin at 0."
    )
    drawing = pictures.chart_of_lengths(found)
    return markup(
        page.beside(markup(said, page.bullets(_on_lengths(found))), drawing),
        page.table([*columns, "floats without snapping"], rows),
    )


def _protocol(found: Findings) -> Markup:
    card, settings = found.card, found.settings
    tried = "; ".join(
        f"{side.name}: "
        + ", ".join(f"{trial} → {best:.4f}" for trial, best in side.validation.items())
        for side in found.sides.values()
    )
    facts = {
        "data": "scikit-learn's digits, 8 × 8 pixels, ten classes",
        "split": f"{card['training']} training images, {card['validation']} for "
        f"validation, {card['queries']} queries, {card['database']} in the database "
        f"(without training images); hash {card['split_hashes'][0]}",
        "ranking": str(card["rules"]),
        "network": "64 pixels, 128 hidden units, embedding of 32; supervised "
        f"contrastive loss on squared distances; AdamW, {settings.steps} steps of 96 "
        "images, cosine schedule",
        "codes": f"product quantizer: {', '.join(map(_layout, settings.lengths))}",
        "codebooks": "of each run kept as training left them (none), or fitted to the "
        "training images or to the database, whichever ranks best on the validation "
        f"part, on all sides alike; at {settings.bits} bits {_sources(found)}",
        "choices": f"at {settings.bits} bits, of each side what ranks best by codes on "
        "the validation part, mean over seeds; the queries were not looked at. "
        f"{tried}",
        "step": "of each run the one whose codes rank best on the validation part",
        "seeds": f"0 to {settings.seeds - 1}, of weights and batches; one split, so "
        "the ranges do not tell how much another split would change",
    }
    same = {name: str(card[name]) for name in ("machine", "command", "version")}
    return page.definitions(facts | same)


def _sources(found: Findings) -> str:
    """How often each source of codebooks was chosen, of every side."""
    told = []
    for side in found.sides.values():
        counts = Counter(run.fitted_to for run in side.runs)
        sources = ", ".join(f"{name} {times}" for name, times in sorted(counts.items()))
        told.append(f"{side.name}: {sources}")
    return "; ".join(told)


def _layout(bits: int) -> str:
    """``4 bits (2 × 4)``: codebooks by codewords."""
    size = codebook_size(bits)
    return f"{bits} bits ({bits // (size.bit_length() - 1)} × {size})"


SECTIONS = {
    "results": ("Results", _results),
    "bits": ("Where the gain ends", _lengths),
    "embeddings": ("Embeddings and their reconstructions", pictures.embeddings),
    "queries": ("Ten queries and what they find", pictures.queries),
    "conformity": ("Conformity", pictures.conformity),
    "curves": ("Training", pictures.curves),
    "protocol": ("How it was measured", _protocol),
}
"""The page's parts by their anchors, in order."""
