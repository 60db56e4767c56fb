"""What a run learns from beside its items: labels, or another kind of knowledge.

A kind says how items are divided, which of them a batch holds, what a loss is told of a
batch, and how well floats and codes rank. Loop, watch and command line know no kinds.
"""

from typing import Any, Protocol

from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.data import Dataset, ShardedDataset, Split
from gradsnap.errors import InputError
from gradsnap.losses import Target
from gradsnap.training.batches import Batches
from gradsnap.training.by_labels import PROTOCOL_OF, ByLabels
from gradsnap.training.by_neighbors import ByNeighbors
from gradsnap.training.by_pairs import ByPairs
from gradsnap.training.by_shards import ByShards
from gradsnap.training.by_triplets import ByTriplets
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.processes import Processes
from gradsnap.training.scoring import Embed


class Supervision(Protocol):
    """What is known of the items of one data set."""

    @property
    def figure(self) -> str:
        """What choices are made by: ``map`` where scores hold a ``code_map``."""
        ...

    @property
    def title(self) -> str:
        """That figure in words, such as ``MAP``."""
        ...

    @property
    def protocol(self) -> str:
        """The short name of how items are divided."""
        ...

    @property
    def num_classes(self) -> int:
        """For a loss with a classifier; 0 where there are no classes."""
        ...

    def looking_at(self, items: Dataset) -> "Supervision":
        """The same knowledge, with items as the part that trains takes them.

        Where the trunk is frozen those are its outputs. Only what is known by looking
        at items changes.
        """
        ...

    def split(self, settings: DataSettings) -> Split:
        """The items divided for training, validation and the last score.

        Raises:
            InputError: options that do not fit, or too few items.
        """
        ...

    def batches(self, config: TrainingConfig, train: Tensor) -> Batches:
        """Batches of the training items (n,)."""
        ...

    def target(self, indices: Tensor) -> Target:
        """What a loss is told of the batch of items at indices (b,)."""
        ...

    def labels(self, indices: Tensor) -> Tensor | None:
        """What a coder is fitted with beside embeddings; None where there are none."""
        ...

    def is_new_in_validation(self, split: Split) -> bool:
        """Whether the validation part is of another kind than what trained.

        What a coder fitted to the database will be like is then seen by one that is
        fitted to the validation database.
        """
        ...

    def score(
        self, coder: Coder, embed: Embed, queries: Tensor, database: Tensor
    ) -> dict[str, float]:
        """How well floats and codes of items at indices (q,) and (n,) rank.

        Args:
            coder: fitted.
            embed: of indices; asked for what is needed and no more.
            queries: a part of the split that asks.
            database: what they search.
        """
        ...

    def card(
        self, config: TrainingConfig, split: Split, bits: int | None
    ) -> dict[str, Any]:
        """What the figures rest on, for ``card.json``.

        At least ``rules``, a sentence, ``protocol`` with its ``name``, and ``card``
        with the numbers of ``queries`` and ``database`` items and ``split_hashes``. A
        table ``facts`` is shown to people as it is.
        """
        ...


def supervision_of(
    dataset: Dataset, settings: DataSettings, processes: Processes | None = None
) -> Supervision:
    """What the settings say a run learns from.

    Args:
        dataset: of this process.
        settings: of the data.
        processes: that share it, where it is in shards.

    Raises:
        InputError: there is nothing to learn from.
    """
    if isinstance(dataset, ShardedDataset):
        return ByShards.of(dataset, settings, processes or Processes())
    if settings.pairs is not None and settings.triplets is not None:
        raise InputError("give data.pairs or data.triplets, not both")
    if settings.pairs is not None:
        return ByPairs.read(dataset, settings)
    if settings.triplets is not None:
        return ByTriplets.read(dataset, settings)
    if dataset.labels is None or settings.ignore_labels:
        return ByNeighbors.of(dataset, settings)
    name = settings.protocol or PROTOCOL_OF.get(dataset.name, "fraction")
    return ByLabels(dataset, dataset.labels, name)
