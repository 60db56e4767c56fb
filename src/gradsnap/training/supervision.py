"""What a run learns from beside its items: labels, or another kind of knowledge.

A kind says how items are divided, which of them a batch holds, what a loss is told of a
batch, and how well floats and codes rank. Loop, watch and command line know no kinds.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.data import PROTOCOLS, Dataset, Split
from gradsnap.errors import InputError
from gradsnap.evaluation import RankingRules
from gradsnap.losses import Target
from gradsnap.registry import chosen
from gradsnap.training.batches import Balanced, Batches, DrawnTriplets, Shuffled
from gradsnap.training.by_neighbors import ByNeighbors
from gradsnap.training.by_pairs import ByPairs
from gradsnap.training.by_triplets import ByTriplets
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.scoring import Embed, Labelled, protocol_card, rules_of, score
from gradsnap.triplets import SAMPLERS

PROTOCOL_OF = {
    "mnist": "paper",
    "cifar10": "paper",
    "nuswide": "nuswide",
    "ilsvrc2012": "ilsvrc2012",
}
"""The protocol of the paper's own data sets; others have ``fraction``."""


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


def supervision_of(dataset: Dataset, settings: DataSettings) -> Supervision:
    """What the settings say a run learns from.

    Raises:
        InputError: there is nothing to learn from.
    """
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


@dataclass(frozen=True, eq=False)
class ByLabels:
    """Items that share a label are alike; a ranking is judged by MAP."""

    dataset: Dataset
    every_label: Tensor
    """Of all items, (n,) or multi-hot (n, L)."""
    protocol: str
    """A key of ``PROTOCOLS``."""

    figure: ClassVar[str] = "map"
    title: ClassVar[str] = "MAP"

    @property
    def num_classes(self) -> int:
        """Of the data set."""
        return len(self.dataset.classes)

    @property
    def rules(self) -> RankingRules:
        """How a ranking is measured under the protocol."""
        return rules_of(self.protocol)

    def looking_at(self, items: Dataset) -> Self:
        """The same: labels are known without looking."""
        return self

    def split(self, settings: DataSettings) -> Split:
        """As the protocol says, with the options of the settings."""
        protocol = chosen(PROTOCOLS, self.protocol, "protocol of labels")
        known = {field.name for field in fields(protocol)} - {"validation"}
        unknown = sorted(settings.protocol_options.keys() - known)
        if unknown:
            raise InputError(
                f"the protocol {self.protocol!r} has no option "
                f"{', '.join(unknown)}; it has {', '.join(sorted(known)) or 'none'}"
            )
        try:
            made = protocol(**settings.protocol_options, validation=settings.validation)
        except TypeError as error:
            raise InputError(f"data.protocol_options: {error}") from error
        return self.dataset.split(made, settings.split_seed)

    def batches(self, config: TrainingConfig, train: Tensor) -> Batches:
        """Shuffled, some of each class, or triplets, as the settings say."""
        run, loss, labels = config.run, config.loss, self.every_label[train]
        size = run.batch_size or len(train)
        if loss.name == "triplet" and loss.triplets in SAMPLERS:
            options = loss.triplet_options
            return DrawnTriplets(train, labels, size, run.seed, loss.triplets, options)
        if run.items_per_class:
            return Balanced(train, labels, size, run.items_per_class, run.seed)
        return Shuffled(train, size, run.seed)

    def target(self, indices: Tensor) -> Target:
        """Their labels, (b,) or (b, L)."""
        return self.every_label[indices]

    def labels(self, indices: Tensor) -> Tensor | None:
        """Their labels."""
        return self.every_label[indices]

    def is_new_in_validation(self, split: Split) -> bool:
        """Whether the validation part has classes that training has not."""
        labels = self.every_label
        if labels.ndim > 1 or not len(split.validation):
            return False
        return not bool(torch.isin(labels[split.validation], labels[split.train]).any())

    def score(
        self, coder: Coder, embed: Embed, queries: Tensor, database: Tensor
    ) -> dict[str, float]:
        """MAP of floats and codes, and the relative quantization error."""
        asking, searched = (self._labelled(embed, part) for part in (queries, database))
        return score(coder, asking, searched, self.rules).figures()

    def card(
        self, config: TrainingConfig, split: Split, bits: int | None
    ) -> dict[str, Any]:
        """The protocol card."""
        data, name = config.data, self.dataset.name
        protocol = protocol_card(config, name, split, self.rules, bits)
        return {
            "classes": list(self.dataset.classes),
            "protocol": {"name": self.protocol, **data.protocol_options},
            "rules": str(self.rules),
            "card": protocol.record(),
        }

    def _labelled(self, embed: Embed, indices: Tensor) -> Labelled:
        rows = embed(indices)
        return Labelled(rows, self.every_label[indices].to(rows.device))
