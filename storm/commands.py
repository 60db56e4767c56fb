"""The command line, called in this process as a shell calls it."""

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import typer

from gradsnap.cli import app as program
from storm.outcomes import WrongAnswer

CODES = (0, 1, 2, 130, 141)
"""Exit codes of docs/reliability.md."""

made: list[Callable[[], Any]] = []
"""The program, its options read once instead of at each call."""


class Said(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


def run(*words: object) -> Said:
    """Runs ``gradsnap`` with these words.

    Raises:
        Exception: whatever ``main`` lets through, which a user sees as a traceback.
        WrongAnswer: the exit code is in no table, an error is not one sentence, or
            something raw was written.
    """
    if not made:
        made.append(typer.main.get_command(program.app))
        program.app = made[0]  # type: ignore[assignment]
    out, err = _stream(), _stream()
    before, code = sys.argv, 0
    logging.getLogger().handlers.clear()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        sys.argv = ["gradsnap", *map(str, words)]
        try:
            with warnings.catch_warnings():
                program.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        finally:
            sys.argv = before
    said = Said(code, _text(out), _text(err))
    _check(said)
    return said


def outcome(said: Said) -> str:
    """How a command's end is counted."""
    return "answered" if said.code == 0 else "refused"


def _stream() -> io.TextIOWrapper:
    """A file in memory; as strict as a terminal's with what is no UTF-8."""
    return io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()


def _check(said: Said) -> None:
    if said.code not in CODES:
        raise WrongAnswer(f"exit code {said.code}")
    if "Traceback (most recent" in said.err:
        raise WrongAnswer(said.err)
    if said.code == 1 and "error: " not in said.err:
        raise WrongAnswer(f"exit code 1, and no sentence: {said.err!r:.300}")
    for text in (said.out, said.err):
        raw = [c for c in text if not c.isprintable() and c not in "\n\t"]
        if raw:
            raise WrongAnswer(f"raw {raw[0]!r} written: {text!r:.300}")
