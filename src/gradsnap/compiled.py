"""Compiled kernels: one decorator, one way to find them, one way to spread them.

Kernels are plain Python functions over NumPy arrays that numba turns into machine code,
cached on disk. Each has a twin in torch, which serves on CUDA and wherever numba cannot
be installed.
"""

import collections
import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import ModuleType
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
Job = TypeVar("Job")
Result = TypeVar("Result")


def compiled(function: Function) -> Function:
    """Machine code for the function, cached on disk, run without Python's lock.

    Sums may not be re-ordered (the twins in torch must agree to the bit), but NaN and
    the sign of zero need no care: rows are checked before they come here.
    """
    return _compiled(function, {"nnan", "nsz"}, _nrt=True)


def compiled_in_place(function: Function) -> Function:
    """The same for what makes no arrays, and only fills those it is given.

    numba counts who holds an array, at every row and slice that is taken of it, which
    in loops over short lists took a fifth of the time. Here it does not.
    """
    return _compiled(function, {"nnan", "nsz"}, _nrt=False)


def compiled_loosely(function: Function) -> Function:
    """In place, and sums may be re-ordered: its twin in torch does so as well.

    Wide registers then add up several numbers at once, and a division by zero is no
    error; what comes out differs from the twin's by rounding.
    """
    free = {"nnan", "nsz", "reassoc", "contract"}
    return _compiled(function, free, error_model="numpy", _nrt=False)


def compiled_strictly(function: Function) -> Function:
    """The same where NaN and infinity may come, to be noticed."""
    return _compiled(function, {"reassoc"}, _nrt=False)


def _compiled(function: Function, fastmath: set[str], **options: Any) -> Function:
    import numba

    _tell_of_compiling()
    compile_: Any = numba.njit(nogil=True, cache=True, fastmath=fastmath, **options)
    made: Function = compile_(function)
    return made


@functools.cache
def _tell_of_compiling() -> None:
    """From now on it is said that kernels are compiled, where that takes long."""
    from numba.core import event

    from gradsnap import progress

    class Telling(event.Listener):
        """Kernels that others call are compiled within them; numba locks the rest."""

        def __init__(self) -> None:
            self.begun: list[float] = []
            self.spent, self.sign = 0.0, contextlib.ExitStack()

        def on_start(self, event: object) -> None:
            if not self.begun:
                left = progress.PATIENCE_SECONDS - self.spent
                self.sign.enter_context(progress.waiting(COMPILING, left))
            self.begun.append(time.monotonic())

        def on_end(self, event: object) -> None:
            begun = self.begun.pop()
            if not self.begun:
                self.spent += time.monotonic() - begun
                self.sign.close()

    event.register("numba:compile", Telling())  # type: ignore[no-untyped-call]


COMPILING = "compiling for this processor, once: later runs find it on disk"


@functools.cache
def installed() -> bool:
    """Whether numba is there."""
    return importlib.util.find_spec("numba") is not None


def kernels(module: str) -> ModuleType | None:
    """The module of compiled kernels, or None where the twins in torch are to serve."""
    if _spared and "numba" not in sys.modules:
        return None
    return _imported(module) if installed() else None


@functools.cache
def _imported(module: str) -> ModuleType:
    """Looking a module up again takes ten times as long as remembering it."""
    return importlib.import_module(module)


_spared: list[bool] = []
"""One entry for each ``sparing_numba`` that we are inside of."""


@contextlib.contextmanager
def sparing_numba(spare: bool) -> Iterator[None]:
    """Inside, if told to, the twins in torch serve unless numba is imported already.

    Importing it takes more than a second: a program that does little, once, is done
    before. The answers are the same.
    """
    entered = [spare] if spare else []
    _spared.extend(entered)
    try:
        yield
    finally:
        for _ in entered:
            _spared.pop()


def spread(work: Callable[[Job], object], jobs: Sequence[Job]) -> None:
    """Calls ``work`` on every job, on as many threads as torch uses."""
    on_threads(work, jobs)


def on_threads(work: Callable[[Job], Result], jobs: Sequence[Job]) -> list[Result]:
    """What ``work`` gives for every job, in order, on as many threads as torch uses.

    This thread is one of them and begins at once; the others are kept from call to
    call, for beginning a thread takes longer than many a kernel. Where they are busy,
    this one does all. If jobs fail, the error is that of the first of them.
    """
    others = min(torch.get_num_threads(), len(jobs)) - 1
    if others <= 0:
        return [work(job) for job in jobs]
    waiting = collections.deque(range(len(jobs)))
    found: dict[int, Result] = {}
    failed: dict[int, Exception] = {}

    def take() -> None:
        with contextlib.suppress(IndexError):  # nothing is waiting any more
            while True:
                at = waiting.popleft()
                try:
                    found[at] = work(jobs[at])
                except Exception as error:
                    failed[at] = error

    tasks = [_threads().submit(take) for _ in range(others)]
    try:
        take()
    finally:
        waiting.clear()  # where a person interrupts this one
        wait([task for task in tasks if not task.cancel()])
    for at in sorted(failed):
        raise failed[at]
    return [found[at] for at in range(len(jobs))]


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="gradsnap")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)
