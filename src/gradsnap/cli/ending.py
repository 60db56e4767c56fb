"""How the program ends: what it says then, its exit code, and what Ctrl-C does."""

import atexit
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
UNREAD = 141
"""Exit codes, as a shell gives them to programs that end by SIGINT and SIGPIPE."""

NOBODY_READS = "stopped: nobody reads the output any more"


class Ended(BaseException):
    """The end of a verb that is no error of ours; nothing between may swallow it.

    Args:
        sentence: for standard error.
        code: of the exit.
    """

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.sentence, self.code = sentence, code


def begin() -> None:
    """Readies standard streams, warnings, the log, Ctrl-C and a quick exit."""
    _open_closed_streams()
    handler = logging.StreamHandler()  # to stderr
    handler.setFormatter(_Escaping("%(message)s"))
    logging.basicConfig(handlers=[handler])
    # Pillow's word about large images; what is too large is an error of ours.
    warnings.filterwarnings("ignore", message="Image size .* exceeds limit")
    _let_interrupts_finish()
    # Threads end and streams are flushed as ever, but nobody looks for cycles in what
    # torch leaves, which took .4 s: the system takes back all memory at once. No file
    # waits for that: each is closed where it is written.
    atexit.register(gc.freeze)


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Runs a verb; its output has reached whoever reads it when this is left."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise Ended("interrupted", INTERRUPTED) from None
    except BrokenPipeError:
        raise Ended(NOBODY_READS, UNREAD) from None
    except SystemError as error:
        _uncover(error)
        raise


def _uncover(error: SystemError) -> None:
    """Ends with what came while a compiled kernel ran: Ctrl-C, or no memory left.

    Numba's kernels return their result all the same, and Python wraps what it finds.
    """
    if isinstance(error.__cause__, KeyboardInterrupt):
        raise Ended("interrupted", INTERRUPTED) from None
    if isinstance(error.__cause__, MemoryError):
        raise error.__cause__


def explain(end: SystemExit) -> None:
    """Ends with a sentence and a code of ours what a library ended without one."""
    before = end.__context__
    if isinstance(getattr(before, "__cause__", None), KeyboardInterrupt):
        stop("interrupted", INTERRUPTED)
    if isinstance(before, BrokenPipeError):
        stop(NOBODY_READS, UNREAD)


def stop(sentence: str, code: int) -> NoReturn:
    """Prints a sentence to standard error and exits."""
    try:
        sys.stdout.flush()
    except OSError:  # what could not be written cannot be written at the exit either
        _to_nowhere(sys.stdout.fileno())
    with contextlib.suppress(OSError):
        print(printable(sentence), file=sys.stderr, flush=True)  # noqa: T201
    sys.exit(code)


class _Escaping(logging.Formatter):
    """Lines of which nothing can move the cursor, whatever a file is called."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def printable(text: str) -> str:
    """The text with what cannot be printed escaped, line by line."""
    from gradsnap.strings import shown

    return "\n".join(map(shown, text.split("\n")))


def _open_closed_streams() -> None:
    """Puts nothing in the place of closed streams, lest a file takes their numbers."""
    for number in (1, 2):
        try:
            os.fstat(number)
        except OSError:
            _to_nowhere(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")


def _to_nowhere(number: int) -> None:
    """Lets an open file's number lead to the null device."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)


def _let_interrupts_finish() -> None:
    """The first Ctrl-C ends the work, the second waits for it, the third does not."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        return
    times = [0]

    def interrupted(number: int, frame: FrameType | None) -> None:
        times[0] += 1
        if times[0] == 1:
            raise KeyboardInterrupt
        if times[0] > 2:
            os._exit(INTERRUPTED)
        os.write(2, b"stopping, to leave nothing half written; again ends at once\n")

    signal.signal(signal.SIGINT, interrupted)
