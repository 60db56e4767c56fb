"""How commands end: exit codes, interrupts, output that nobody reads."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradsnap.cli import compare, ending, output
from gradsnap.cli.app import _lacks_memory
from gradsnap.cli.ending import Ended


def test_an_interrupt_is_a_sentence() -> None:
    with pytest.raises(Ended, match="interrupted") as caught, ending.ending():
        raise KeyboardInterrupt
    assert caught.value.code == 130


@pytest.mark.parametrize(
    ("came", "expected"),
    [(KeyboardInterrupt(), Ended), (MemoryError(), MemoryError), (None, SystemError)],
)
def test_what_comes_while_a_kernel_runs_is_uncovered(
    came: BaseException | None, expected: type[BaseException]
) -> None:
    with pytest.raises(expected), ending.ending():
        raise SystemError("returned a result with an exception set") from came


def test_output_that_nobody_reads_is_a_sentence() -> None:
    with pytest.raises(Ended, match="nobody reads") as caught, ending.ending():
        raise BrokenPipeError
    assert caught.value.code == 141


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("serve", "--help")])
def test_help_that_nobody_reads_ends_as_other_output(words: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "gradsnap", *words],
        stdout=writes,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, f"{ending.NOBODY_READS}\n")


def test_tables_that_nobody_reads_end_as_other_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    unread = os.fdopen(writes, "w")
    monkeypatch.setattr(sys, "stdout", unread)
    with pytest.raises(Ended) as caught, ending.ending():
        output.console(None).print("a table")
    monkeypatch.undo()
    with contextlib.suppress(BrokenPipeError):
        unread.close()
    assert caught.value.code == 141


def test_names_of_runs_are_neither_markup_nor_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ("a[/foo]", "IMG [draft]", "red\x1b[31m")
    runs = [
        SimpleNamespace(name=name, spread=0.5, against_first=None, differences=[])
        for name in names
    ]
    compare._show(SimpleNamespace(runs=runs))  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "\x1b" not in said
    for name in ("a[/foo]", "IMG [draft]", r"red\x1b[31m"):
        assert name in said


def test_verbs_have_no_other_console_for_their_output() -> None:
    """Rich's own ends the program by itself, with code 1."""
    for path in Path(output.__file__).parent.glob("*.py"):
        made = re.findall(r"\bConsole\((.*?)\)", path.read_text())
        others = [words for words in made if "stderr=True" not in words]
        assert path.name == "output.py" or not others, path


def test_the_second_interrupt_waits_for_the_first(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ending._let_interrupts_finish()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # what is being tidied up goes on
        assert "stopping" in capfd.readouterr().err
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "words", ["[enforce fail] DefaultCPUAllocator: can't allocate memory", "bad"]
)
def test_too_little_memory_is_told_from_mistakes(words: str) -> None:
    assert _lacks_memory(RuntimeError(words)) == ("allocate" in words)
    assert _lacks_memory(MemoryError())


def run(script: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m gradsnap {script}"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_commands_whose_output_cannot_be_written(tmp_path: Path) -> None:
    shown = "train digits --show-config"
    full = run(f"{shown} > /dev/full")
    assert (full.returncode, full.stderr.count("\n")) == (1, 1)
    assert "No space left" in full.stderr
    closed = run(f"{shown} >&-")
    assert (closed.returncode, closed.stderr) == (0, "")
    unread = run(f"{shown} | true; exit ${{PIPESTATUS[0]}}")
    assert unread.returncode in (0, 141)  # a short text may fit the pipe
    assert "Traceback" not in unread.stderr
