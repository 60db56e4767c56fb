"""The report: one HTML file with everything inside, opened from disk."""

import importlib.resources
import time
from html import escape

from gradsnap.demo.findings import Findings
from gradsnap.demo.sections import (
    bits_section,
    conformity_section,
    curves_section,
    embeddings_section,
    protocol_section,
    queries_section,
    results_section,
)

SECTIONS = {
    "results": results_section,
    "embeddings": embeddings_section,
    "bits": bits_section,
    "queries": queries_section,
    "conformity": conformity_section,
    "curves": curves_section,
    "protocol": protocol_section,
}
"""The page's parts by their anchors, in order."""


def page(found: Findings) -> str:
    """The whole page; it asks for nothing from the network and runs no script."""
    style = importlib.resources.files("gradsnap.demo").joinpath("style.css")
    parts = "".join(
        f'<section id="{anchor}">{section(found)}</section>'
        for anchor, section in SECTIONS.items()
    )
    title = f"gradsnap: digits by {found.settings.bits}-bit codes"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style.read_text('utf-8')}</style></head><body>"
        f"<header><h1>The same network, with and without gradient snapping</h1>"
        f"<p>{_lead(found)}</p></header><main>{parts}</main>"
        f"<footer>{_made(found)}</footer></body></html>\n"
    )


def _lead(found: Findings) -> str:
    row = found.rows["snapping"]
    return (
        f"Images of handwritten digits are searched by codes of {row.bytes_a_vector:g} "
        f"bytes, which stand for embeddings of {row.float_bytes_a_vector} bytes. "
        "The code's reconstruction is not the embedding, and ranking by it may lose "
        "accuracy. Gradient snapping turns each training step toward a nearby "
        "codeword, so that less is lost."
    )


def _made(found: Findings) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime())
    version = escape(str(found.card["version"]))
    return f"Made in {found.seconds:.0f} seconds on {when} by {version}."
