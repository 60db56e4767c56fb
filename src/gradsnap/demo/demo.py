"""The demo from data to report."""

import os
import time
from pathlib import Path
from typing import Any

from gradsnap.demo.figures import measure, table_row
from gradsnap.demo.findings import Findings
from gradsnap.demo.page import page
from gradsnap.demo.runs import one_thread, train_sides
from gradsnap.demo.settings import DemoSettings
from gradsnap.errors import InputError
from gradsnap.files import make_folder, write_text
from gradsnap.training.defaults import opened
from gradsnap.training.scoring import protocol_card, rules_of

REPORT = "index.html"


def run_demo(out: Path, settings: DemoSettings) -> Findings:
    """Trains, measures, and writes ``out/index.html``, whole or not at all.

    Args:
        out: the report's folder; made at the end, if it is not there.
        settings: of the demo.

    Raises:
        InputError: the report could not be written to ``out``; found out first.
    """
    check_writable(out)
    started = time.monotonic()
    with one_thread():
        found = _found(settings, started)
    make_folder(out)
    write_text(out / REPORT, page(found))
    return found


def check_writable(out: Path) -> None:
    """Refuses a report's folder that cannot be made or written to."""
    if out.exists() and not out.is_dir():
        raise InputError(
            f"cannot write the report to {out}: it is a file, not a folder"
        )
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"cannot write the report to {out}: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"cannot write the report to {out}: {there} is not writable")


def _found(settings: DemoSettings, started: float) -> Findings:
    config, dataset, split = opened(settings.config("snapping", settings.rates[0], 0))
    sides = train_sides(settings)
    measured = {
        side.layer: [measure(run, dataset, split, settings) for run in side.runs]
        for side in sides
    }
    rows = {side.layer: table_row(side, measured[side.layer]) for side in sides}
    rules = rules_of(config.data.protocol)
    card: dict[str, Any] = protocol_card(
        config, dataset.name, split, rules, settings.bits
    ).record()
    return Findings(
        settings=settings,
        sides={side.layer: side for side in sides},
        measured=measured,
        rows=rows,
        images=dataset.items.batch(split.database),
        query_images=dataset.items.batch(split.queries),
        card=card | {"rules": str(rules), "validation": len(split.validation)},
        seconds=time.monotonic() - started,
    )
