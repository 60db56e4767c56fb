"""``track``: every item, and a bar only where somebody looks long enough."""

import io
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from gradsnap import compiled, progress
from gradsnap.progress import silenced, track, waiting

SHOW_CURSOR = "\x1b[?25h"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


Look = Callable[[], Terminal]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """Called in the test itself, since pytest sets stderr anew after all fixtures."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def terminal() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return terminal


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any time at all is long enough."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)


def test_all_items_pass_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(range(5), "counting")) == [0, 1, 2, 3, 4]
    assert list(track([], "nothing")) == []
    assert list(track((i * i for i in range(3)), "squares")) == [0, 1, 4]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.usefixtures("impatient")
def test_nothing_is_drawn_where_nobody_looks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(track(range(5), "counting")) == [0, 1, 2, 3, 4]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_nothing_is_drawn_for_what_is_quick(look: Look) -> None:
    terminal = look()
    assert list(track(range(5), "counting")) == [0, 1, 2, 3, 4]
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("impatient")
def test_a_bar_is_drawn_for_what_is_slow(look: Look) -> None:
    terminal = look()
    assert list(track(range(5), "counting")) == [0, 1, 2, 3, 4]
    assert "counting" in terminal.getvalue()
    assert terminal.getvalue().count(SHOW_CURSOR) == 1


@pytest.mark.usefixtures("impatient")
def test_a_bar_needs_no_length(look: Look) -> None:
    terminal = look()
    assert list(track(iter("abc"), "spelling")) == ["a", "b", "c"]
    assert "spelling" in terminal.getvalue()


@pytest.mark.usefixtures("impatient")
def test_a_dumb_terminal_stays_clean(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = look()
    monkeypatch.setenv("TERM", "dumb")
    for _ in range(3):
        assert list(track(range(5), "counting")) == [0, 1, 2, 3, 4]
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("impatient")
def test_only_the_outer_bar_is_drawn(look: Look) -> None:
    terminal = look()
    pairs = [(i, j) for i in track(range(3), "outer") for j in track("ab", "inner")]
    assert len(pairs) == 6
    assert "outer" in terminal.getvalue()
    assert "inner" not in terminal.getvalue()
    list(track(range(2), "afterwards"))
    assert "afterwards" in terminal.getvalue()


@pytest.mark.usefixtures("impatient")
def test_an_early_end_puts_the_bar_away(look: Look) -> None:
    terminal = look()
    items = track(range(5), "searching")
    assert next(items) == 0
    assert SHOW_CURSOR not in terminal.getvalue()
    items.close()  # type: ignore[attr-defined]
    assert SHOW_CURSOR in terminal.getvalue()
    assert list(track(range(2), "afterwards")) == [0, 1]
    assert "afterwards" in terminal.getvalue()


@pytest.mark.usefixtures("impatient")
def test_an_error_passes_and_puts_the_bar_away(look: Look) -> None:
    terminal = look()

    def failing() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    seen: list[int] = []
    with pytest.raises(ZeroDivisionError):
        seen.extend(track(failing(), "failing"))
    assert seen == [1]
    assert SHOW_CURSOR in terminal.getvalue()
    assert list(track(range(2), "afterwards")) == [0, 1]
    assert "afterwards" in terminal.getvalue()


@pytest.mark.usefixtures("impatient")
def test_silenced_draws_nothing_and_lets_go(look: Look) -> None:
    stream = look()
    with progress.silenced(True):
        list(track(range(3), "counting"))
    assert stream.getvalue() == ""
    with progress.silenced(False):
        list(track(range(3), "counting"))
    assert "counting" in stream.getvalue()


def test_a_sign_is_drawn_while_one_waits(look: Look) -> None:
    terminal = look()
    with waiting("thinking", patience=0.01):
        time.sleep(0.3)
    assert "thinking" in terminal.getvalue()
    assert terminal.getvalue().count(SHOW_CURSOR) == 1
    assert not progress.is_drawn()


def test_no_sign_for_what_is_quick_or_quiet(look: Look) -> None:
    terminal = look()
    with waiting("thinking"):
        pass
    with silenced(True), waiting("thinking", patience=0.01):
        time.sleep(0.1)
    assert terminal.getvalue() == ""
    assert not progress.is_drawn()


def test_compiling_is_said(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    compiled._tell_of_compiling()
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    doubled = numba.njit(lambda x: x * 2)
    terminal = look()
    assert doubled(3) == 6
    assert compiled.COMPILING[:20] in terminal.getvalue()
    assert doubled(4) == 8
    assert terminal.getvalue().count(SHOW_CURSOR) == 1
