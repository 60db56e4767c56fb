"""The last few results of a function, kept by one source in one process."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """Calls a function once for the last few arguments; forgets when it is sent.

    Threads may share it; two that ask at once may both call.

    Args:
        make: the function.
        most: results that are kept.

    Example:
        >>> halves = Remembered(lambda one: print("half of", one) or one / 2)
        >>> halves(4), halves(4)
        half of 4
        (2.0, 2.0)
    """

    def __init__(self, make: Callable[..., Value], most: int = 4) -> None:
        self.make, self.most = make, most
        self._kept: dict[tuple[Any, ...], Value] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Value:
        """What the function gives for these arguments."""
        with self._lock:
            found = [self._kept[arguments]] if arguments in self._kept else []
        made = found[0] if found else self.make(*arguments)
        with self._lock:
            self._kept.pop(arguments, None)  # to be the newest again
            while len(self._kept) >= self.most:
                self._kept.pop(next(iter(self._kept)))
            self._kept[arguments] = made
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"make": self.make, "most": self.most}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
