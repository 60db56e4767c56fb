"""What a figure depends on, in words: rules of the ranking, and the protocol card."""

import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import torch

from gradsnap.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from gradsnap.data.protocols import Split

Divisor = Literal["relevant", "found"]
NoHit = Literal["zero", "skip"]

TIES = "expected over random order"
"""The one tie rule: array order would reward whoever wrote the database file."""

DECISIVE = (
    "dataset",
    "split_hashes",
    "queries",
    "training",
    "database",
    "training_in_database",
    "length",
    "divisor",
    "no_hit",
    "ties",
)
"""What two figures must share to be compared; the rest is told, and may differ."""


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
        for name, choices in (("divisor", Divisor), ("no_hit", NoHit)):
            value, known = getattr(self, name), get_args(choices)
            if value not in known:
                raise InputError(
                    f"{name} must be one of {', '.join(known)}; got {value!r}"
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


class Difference(NamedTuple):
    """One thing two cards do not share."""

    field: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.field}: {self.ours!r} and {self.theirs!r}"


@dataclass(frozen=True, kw_only=True)
class ProtocolCard:
    """How a figure was measured, so that it can be run again and disputed."""

    dataset: str
    """Name of the data set."""
    split_hashes: tuple[str, ...]
    """The hash of each split that was run, one a seed."""
    queries: int
    training: int
    database: int
    training_in_database: bool
    """Whether the queries also search training items."""
    length: int | None
    """R, how many results count; None is the whole database."""
    divisor: str
    """What the average precision is divided by; see ``RankingRules``."""
    no_hit: str
    """What becomes of queries without a hit; see ``RankingRules``."""
    ties: str = TIES
    seeds: tuple[int, ...] = (0,)
    network: str = ""
    """What made the embeddings."""
    method: str = ""
    """What made the codes, with its settings."""
    bits: int | None = None
    """Length of a code; None for embeddings."""
    options: tuple[tuple[str, str], ...] = ()
    """What else the method was given, such as strength and seed: names and values."""
    machine: str = ""
    command: str = ""
    version: str = ""
    """Of gradsnap and torch."""

    @classmethod
    def of(
        cls,
        dataset: str,
        splits: "Sequence[Split]",
        rules: RankingRules,
        *,
        seeds: Sequence[int],
        network: str = "",
        method: str = "",
        bits: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "ProtocolCard":
        """The card of splits of one protocol, on this machine and command line.

        Args:
            dataset: its name.
            splits: one for each seed, of the same sizes.
            rules: of the ranking.
            seeds: one for each split.
            network: what made the embeddings.
            method: what made the codes.
            bits: length of a code.
            options: what else the method was given, by name.
        """
        sizes = {(len(s.queries), s.num_training, len(s.database)) for s in splits}
        if len(sizes) != 1 or len(splits) != len(seeds):
            raise InputError(
                f"a card needs one split a seed, all of one size; got {len(splits)} "
                f"splits of sizes {sorted(sizes)} for {len(seeds)} seeds"
            )
        [(queries, training, database)] = sizes
        first = splits[0]
        return cls(
            dataset=dataset,
            split_hashes=tuple(split.hash for split in splits),
            queries=queries,
            training=training,
            database=database,
            training_in_database=bool(torch.isin(first.train, first.database).any()),
            length=rules.length,
            divisor=rules.divisor,
            no_hit=rules.no_hit,
            seeds=tuple(seeds),
            network=network,
            method=method,
            bits=bits,
            options=_as_pairs(options or {}),
            machine=machine(),
            command=command_line(sys.argv),
            version=_version(),
        )

    @property
    def rules(self) -> RankingRules:
        """The rules of the ranking."""
        return RankingRules(self.length, self.divisor, self.no_hit)  # type: ignore[arg-type]

    def differences(self, other: "ProtocolCard") -> tuple[Difference, ...]:
        """What makes figures of the two cards answers to different questions."""
        return self._differences_in(other, DECISIVE)

    def notes(self, other: "ProtocolCard") -> tuple[Difference, ...]:
        """What else differs: network, method, seeds, machine and the like."""
        rest = [f.name for f in fields(self) if f.name not in DECISIVE]
        return self._differences_in(other, rest)

    def _differences_in(
        self, other: "ProtocolCard", names: Sequence[str]
    ) -> tuple[Difference, ...]:
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in names)
        return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = asdict(self) | {"options": dict(self.options)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "ProtocolCard":
        """The card written by ``record``, or by one that knew no options.

        Raises:
            FileFormatError: a field is missing or unknown.
        """
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record.items()
        }
        try:
            values["options"] = _as_pairs(record.get("options", {}))
            return cls(**values)
        except (AttributeError, TypeError) as error:
            raise FileFormatError(f"this is no protocol card: {error}") from error

    def __str__(self) -> str:
        kept = "with" if self.training_in_database else "without"
        return (
            f"{self.dataset}: {self.queries:,} queries, {self.training:,} training "
            f"items, database of {self.database:,} {kept} the training items "
            f"(split {', '.join(self.split_hashes)}); {self.rules}; "
            f"seeds {', '.join(map(str, self.seeds))}"
        )


def _as_pairs(options: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in options.items())


def command_line(arguments: Sequence[str]) -> str:
    """What was typed, as far as a program can know.

    >>> command_line(["/usr/lib/gradsnap/__main__.py", "demo", "--out", "my report"])
    "python -m gradsnap demo --out 'my report'"
    """
    folder, name = os.path.split(arguments[0])
    typed = [name]
    if name == "__main__.py":
        typed = ["python", "-m", os.path.basename(folder)]
    return shlex.join([*typed, *arguments[1:]])


def machine() -> str:
    """The processor, or the CUDA device, and the system, in one line."""
    cuda = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if cuda else platform.machine()
    return f"{device}, {os.cpu_count()} cores, {platform.system()}"


def _version() -> str:
    from gradsnap import __version__

    return f"gradsnap {__version__}, torch {torch.__version__}"
