"""The sections of the report: words around tables and pictures."""

from html import escape

from gradsnap.demo.charts import (
    CURVES,
    bits_chart,
    conformity_chart,
    conformity_counts,
    curve_chart,
)
from gradsnap.demo.figures import Range, Row
from gradsnap.demo.findings import Findings
from gradsnap.demo.queries import query_cards
from gradsnap.demo.runs import SIDES
from gradsnap.demo.scatter import scatter
from gradsnap.demo.svg import marker

COLUMNS = (
    "network",
    "float MAP",
    "code MAP",
    "quantization error",
    "bytes a vector",
    "ms a query",
    "learning rate",
)


def results_section(found: Findings) -> str:
    """The table, and what may be said of it."""
    said = "".join(f"<li>{escape(one)}</li>" for one in found.verdict())
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    rows = "".join(_row(row) for row in found.rows.values())
    plain = found.rows["plain"]
    return (
        f"<h2>Results</h2><p class='soft'>Mean over {_seeds(found)}, with the least "
        "and the most of them below. MAP: larger is better, 1 is perfect. Quantization "
        "error: mean squared distance from embedding to reconstruction over the "
        "variance of the embeddings; smaller is better.</p>"
        f'<div class="scroll"><table class="figures"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div><ul>{said}</ul>"
        f"<p class='soft'>Floats take {plain.float_bytes_a_vector} bytes a vector and "
        f"{plain.float_milliseconds_a_query:.3f} ms a query (exhaustive, in torch); "
        "both times are of one thread, all queries in one call, without embedding. So "
        "small a database says little about speed.</p>"
    )


def embeddings_section(found: Findings) -> str:
    """Both embeddings in 2-D with their reconstructions."""
    figures = ""
    for layer, side in found.sides.items():
        drawn, share = scatter(found.measured[layer][0], side.name)
        dim = found.measured[layer][0].database.rows.shape[1]
        error = found.measured[layer][0].scores.relative_error
        figures += (
            f"<figure><h3>{side.name.capitalize()}</h3>{drawn}<figcaption>Error "
            f"{error:.3f}; two of {dim} dimensions, {share:.0%} of the variance."
            "</figcaption></figure>"
        )
    return (
        "<h2>Embeddings and their reconstructions</h2><p class='soft'>Dots are "
        "embeddings of database images, coloured and named by digit; crosses are the "
        "codewords' sums that their codes stand for; a line joins the two. Shorter "
        "lines are better codes. Each picture shows its own two widest directions "
        "(PCA), each at its own scale.</p>"
        f'<div class="pair">{figures}</div>'
    )


def bits_section(found: Findings) -> str:
    """MAP against bits."""
    bits = found.settings.bits
    return _beside(
        "<h2>MAP against bits</h2><p>The two networks were trained for "
        f"{bits}-bit codes. For the other lengths only new codebooks were fitted to "
        "the same embeddings, which takes moments; a network trained for each length "
        "could do better. The vertical axis does not begin at 0.</p>"
        f"<p>{escape(found.on_lengths())}</p>",
        _legend(floats=True) + bits_chart(found),
    )


def queries_section(found: Findings) -> str:
    """Ten queries and their results."""
    top = found.settings.top
    return (
        "<h2>Ten queries and what they find</h2><p class='soft'>Of each digit the "
        "query that is harder than nine in ten of its digit's queries, by the mean of "
        "the three rankings' average precisions, for easier ones show less. The first "
        f"{top} results, nearest first: by floats of the network without snapping, by "
        "its codes, and by codes of the network with snapping. A wrong digit has a "
        "dashed frame, a ✗ and its name.</p>"
        f'<div class="queries">{query_cards(found)}</div>'
    )


def conformity_section(found: Findings) -> str:
    """The conformity histogram."""
    counts = conformity_counts(found)
    above = sum(counts[len(counts) // 2 :]) / (sum(counts) or 1)
    return _beside(
        "<h2>Conformity</h2><p>The cosine between a row's loss gradient and the "
        "direction away from the codeword it was snapped to. Above 0, descending the "
        "loss also nears the codeword, and the gradient is turned; at 0 or below, "
        f"snapping is rejected. {above:.0%} of {sum(counts):,} logged rows lie above "
        "0.</p>",
        conformity_chart(found),
    )


def curves_section(found: Findings) -> str:
    """What the runs logged."""
    figures = "".join(
        f"<figure><h3>{name}</h3>{curve_chart(found, key)}</figure>"
        for key, name in CURVES.items()
    )
    return (
        f"<h2>Training</h2><p class='soft'>Mean over {_seeds(found)}, each side at its "
        "own learning rate. The first fifth is a warm-up without codebooks, so there "
        f"is no quantization error yet.</p>{_legend()}"
        f'<div class="three">{figures}</div>'
    )


def protocol_section(found: Findings) -> str:
    """Everything the figures depend on."""
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
        for name, value in _protocol(found).items()
    )
    return f"<h2>How it was measured</h2><dl>{facts}</dl>"


def _protocol(found: Findings) -> dict[str, str]:
    card, settings = found.card, found.settings
    rates = "; ".join(
        f"{side.name}: "
        + ", ".join(
            f"{rate:g} → {value:.4f}" for rate, value in side.validation.items()
        )
        for side in found.sides.values()
    )
    return {
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
        "machine": str(card["machine"]),
        "command": str(card["command"]),
        "version": str(card["version"]),
    }


def _row(row: Row) -> str:
    cells = (
        _range(row.float_map),
        _range(row.code_map),
        _range(row.relative_error),
        f"{row.bytes_a_vector:g}",
        f"{row.milliseconds_a_query:.3f}",
        f"{row.learning_rate:g}",
    )
    body = "".join(
        f'<td data-name="{name}"><span>{cell}</span></td>'
        for name, cell in zip(COLUMNS[1:], cells, strict=True)
    )
    return f'<tr><th scope="row">{row.name}</th>{body}</tr>'


def _range(value: Range) -> str:
    return f"{value.mean:.3f} <small>{value.least:.3f} – {value.most:.3f}</small>"


def _beside(words: str, chart: str) -> str:
    return f'<div class="side"><div>{words}</div><figure>{chart}</figure></div>'


def _legend(floats: bool = False) -> str:
    looks = dict(SIDES)
    if floats:
        looks |= {f"{layer} floats": f"floats, {name}" for layer, name in SIDES.items()}
    items = ""
    for look, name in looks.items():
        mark = "" if "floats" in look or not floats else marker((17, 6), look)
        items += (
            f'<li><svg viewBox="0 0 34 12" aria-hidden="true"><path d="M0 6H34" '
            f'class="line {look}"/>{mark}</svg>{name}</li>'
        )
    return f'<ul class="legend">{items}</ul>'


def _seeds(found: Findings) -> str:
    count = found.settings.seeds
    return f"{count} seeds" if count > 1 else "one seed"
