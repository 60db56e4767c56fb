"""The contract of a kind of bad weather."""

import random
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar


class Kind(ABC):
    """Tries of one sort. A kind is made once, then forked into its workers."""

    name: ClassVar[str]
    weight: ClassVar[float] = 24.0
    """Its share of the storm's time: seconds of twenty minutes."""
    renewed: ClassVar[int] = 400
    """Tries after which a process is replaced, so that nothing adds up."""
    needs_shim: ClassVar[bool] = False
    """Whether it must see every call that writes."""
    patience: ClassVar[float] = 10.0
    """Seconds of work after which a try is a hang."""

    def __init__(self, place: Path) -> None:
        self.place = place
        """A folder of its own, for what is made once."""
        self.steps = 1
        """Steps of the last try."""

    @abstractmethod
    def attempt(self, numbers: random.Random, place: Path) -> str:
        """One try, made of these random numbers, in an empty folder.

        Returns:
            "refused" or "answered".

        Raises:
            Exception: the try failed; see ``outcomes``.
        """

    def said(self, seeds: list[int], steps: int) -> str:
        """What is worth a line below the table, if anything.

        Args:
            seeds: of the tries that were made.
            steps: that they took together.
        """
        return ""


def picked(numbers: random.Random, choices: Any) -> Any:
    """One of the choices, which may be any iterable."""
    return numbers.choice(list(choices))
