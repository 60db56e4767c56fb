"""Items divided by a hash of their names: each is decided without the others.

So every process divides what it has, and the parts do not depend on how many processes
there are, nor on what is added to the source later.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data.protocols.protocol import (
    Indices,
    Split,
    check_fraction,
    check_positive,
)
from gradsnap.errors import InputError

NAME_PROTOCOLS = ("names",)
"""The one way to divide a source whose names nobody holds all of."""

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class SampledSplit(Split):
    """A split whose lists are samples; all processes have the same ones."""

    trained: int
    """Items that train; ``train`` is what coders are fitted to, a sample of them."""

    @property
    def num_training(self) -> int:
        """Items that train."""
        return self.trained


class Sample(NamedTuple):
    """Some of the items of a part, those with the smallest keys."""

    keys: Keys
    """(m,)."""
    items: Indices
    """Their numbers in the source, (m,)."""
    of: int
    """How many items the part has."""

    @classmethod
    def merged(cls, parts: "Sequence[Sample]", most: int) -> "Sample":
        """The ``most`` smallest of the samples of all processes."""
        keys, items, sizes = zip(*parts, strict=True)
        every = cls(np.concatenate(keys), np.concatenate(items), sum(sizes))
        return every.smallest(most)

    def smallest(self, most: int) -> "Sample":
        """Those with the ``most`` smallest keys."""
        order = np.lexsort((self.items, self.keys))[:most]
        return Sample(self.keys[order], self.items[order], self.of)

    def indices(self) -> Tensor:
        """The items in ascending order, int64 (m,)."""
        return torch.from_numpy(np.sort(self.items))


class Samples(NamedTuple):
    """What one process adds to the lists of the split."""

    train: Sample
    queries: Sample
    database: Sample
    validation: Sample


class NamedParts(NamedTuple):
    """How one process's items are divided."""

    queries: NDArray[np.bool_]
    """(n,)."""
    validation: NDArray[np.bool_]
    """(n,)."""
    order: Keys
    """Random numbers by which samples are drawn, (n,)."""

    @property
    def train(self) -> NDArray[np.bool_]:
        """(n,)."""
        return ~(self.queries | self.validation)


@dataclass(frozen=True, kw_only=True)
class NameProtocol:
    """A share of all items as queries; the rest trains and is searched.

    Lists that are embedded at once are samples, the same for every number of processes:
    of a hundred million items nobody holds all embeddings.
    """

    queries: float = 0.1
    """Share of the items that asks at the end."""
    most_queries: int = 2000
    """So many of them do, at most; also of the validation part."""
    validation: float = 0.1
    """Share of the rest that asks while training; never trained on."""
    most_searched: int = 65_536
    """Items that are searched, and that coders are fitted to, at most."""

    def __post_init__(self) -> None:
        check_fraction("queries", self.queries)
        check_positive("most_queries", self.most_queries)
        check_positive("most_searched", self.most_searched)

    def parts(self, names: Iterable[str], seed: int) -> NamedParts:
        """Which of n items ask, at the end or while training; the others train."""
        keys = name_keys(names, seed)  # (n, 2)
        place = keys[:, 0] / 2.0**64
        queries = place < self.queries
        chosen = place < self.queries + (1 - self.queries) * self.validation
        return NamedParts(queries, chosen & ~queries, keys[:, 1])

    def samples(self, parts: NamedParts, first: int) -> Samples:
        """What a process adds to the lists, whose first item has number ``first``."""
        few, many = self.most_queries, self.most_searched

        def sample(chosen: NDArray[np.bool_], most: int) -> Sample:
            items = np.flatnonzero(chosen)
            found = Sample(parts.order[items], items + first, len(items))
            return found.smallest(most)

        return Samples(
            train=sample(parts.train, many),
            queries=sample(parts.queries, few),
            database=sample(~parts.queries, many),
            validation=sample(parts.validation, few),
        )

    def split(self, everyone: Sequence[Samples]) -> SampledSplit:
        """The split of all items, from the samples of all processes.

        Raises:
            InputError: a part has no items.
        """
        few, many = self.most_queries, self.most_searched
        train, queries, database, validation = (
            Sample.merged(parts, most)
            for parts, most in zip(
                zip(*everyone, strict=True), (many, few, many, few), strict=True
            )
        )
        wanted = {"training": train, "queries": queries}
        wanted |= {"validation": validation} if self.validation else {}
        for name, part in wanted.items():
            if not part.of:
                raise InputError(
                    f"{database.of + queries.of} items are too few to divide by their "
                    f"names: no item is left for {name}"
                )
        nothing = torch.empty(0, dtype=torch.int64)
        return SampledSplit(
            train=train.indices(),
            queries=queries.indices(),
            database=database.indices(),
            validation=validation.indices(),
            validation_database=train.indices() if self.validation else nothing,
            trained=train.of,
        )


def name_keys(names: Iterable[str], seed: int) -> Keys:
    """Two random numbers for each of n names, the same on every machine, (n, 2).

    >>> [hex(key) for key in name_keys(["cat/1.jpg"], seed=0)[0].tolist()]
    ['0x7a9df6707f94118d', '0x694ee6e6f7353154']
    """
    salt = f"gradsnap {seed}".encode()
    digests = (
        hashlib.blake2b(
            name.encode("utf-8", "surrogateescape"), digest_size=16, key=salt
        ).digest()
        for name in names
    )
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)
