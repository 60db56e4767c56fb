"""The choices that "MAP" hides, made on purpose and printed with every figure."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from gradsnap.errors import InputError

Divisor = Literal["relevant", "found"]
NoHit = Literal["zero", "skip"]

TIES = "expected over random order"
"""The one tie rule: array order would reward whoever wrote the database file."""


@dataclass(frozen=True)
class RankingRules:
    """How long a ranking is, and what its average precision is divided by.

    There are no defaults: tables contradict each other because these were not said.

    Example:
        >>> print(RankingRules(length=1500, divisor="found", no_hit="zero"))
        MAP@1500; AP divided by the relevant items found; queries without a hit count \
zero; ties: expected over random order
    """

    length: int | None
    """R, how many results count; None ranks the whole database."""

    divisor: Divisor
    """``"relevant"``: min(R, relevant items there are); ``"found"``: those found."""

    no_hit: NoHit
    """A query without any hit counts ``"zero"``, or is left out of the mean: skip."""

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 1:
            raise InputError(f"length must be at least 1, or None; got {self.length}")
        if self.divisor not in get_args(Divisor):
            raise InputError(
                f"divisor must be one of {', '.join(get_args(Divisor))}; "
                f"got {self.divisor!r}"
            )
        if self.no_hit not in get_args(NoHit):
            raise InputError(
                f"no_hit must be one of {', '.join(get_args(NoHit))}; "
                f"got {self.no_hit!r}"
            )

    def __str__(self) -> str:
        every = self.length is None
        name = "MAP over the whole database" if every else f"MAP@{self.length}"
        reach = "the relevant items" if every else "min(R, relevant items)"
        divisor = "the relevant items found" if self.divisor == "found" else reach
        fate = "count zero" if self.no_hit == "zero" else "are left out"
        return f"{name}; AP divided by {divisor}; queries without a hit {fate}; " + (
            f"ties: {TIES}"
        )

    def cut(self, items: int) -> int:
        """R for a database of so many items."""
        return items if self.length is None else min(self.length, items)

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"ties": TIES}
