"""The demo from data to report."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
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
        out: the report's folder; made if it is not there.
        settings: of the demo.

    Raises:
        InputError: the report could not be written to ``out``; found out first.
    """
    started = time.monotonic()
    with writable_folder(out), one_thread():
        found = _found(settings, started)
        write_text(out / REPORT, page(found))
    return found


@contextlib.contextmanager
def writable_folder(out: Path) -> Iterator[None]:
    """Makes the folder and tries it; one that stays empty is removed again."""
    if out.exists() and not out.is_dir():
        raise InputError(
            f"cannot write the report to {out}: it is a file, not a folder"
        )
    make_folder(out)
    try:
        with tempfile.TemporaryFile(dir=out):
            pass
        yield
    except OSError as error:
        raise InputError(
            f"cannot write the report to {out}: {error.strerror}"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # a folder with a report in it stays
            out.rmdir()


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
