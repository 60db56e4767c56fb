"""Learning from labels: items that share one are alike."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.data import PROTOCOLS, Dataset, Split
from gradsnap.errors import InputError
from gradsnap.evaluation import RankingRules
from gradsnap.losses import Target
from gradsnap.registry import chosen
from gradsnap.training.batches import Balanced, Batches, DrawnTriplets, Shuffled
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

    def labels(self, indices: Tensor) -> Tensor:
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
        return Labelled(rows, self.labels(indices).to(rows.device))
