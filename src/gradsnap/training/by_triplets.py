"""Learning from triplets: which of two items is more like a third, by a table."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.data import Dataset, Pairs, Split, file_hash, read_triplets
from gradsnap.errors import InputError
from gradsnap.evaluation import Distances, pair_distances
from gradsnap.losses import Relations
from gradsnap.training.batches import Batches, ListedTriplets, WithoutTriplets
from gradsnap.training.by_pairs import pair_protocol, refuse_label_settings
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.known_pairs import RelationsOf, others_of, relations_of
from gradsnap.training.pair_scores import MOST_ASKING, Asked, evenly, scores
from gradsnap.training.scoring import Embed
from gradsnap.training.without_labels import WithoutLabels

RULES = (
    "share of the triplets of held-out anchors whose positive is nearer than their "
    "negative; a tie counts half"
)


@dataclass(frozen=True, eq=False)
class ByTriplets(WithoutLabels):
    """A table says of two items which is more like an anchor.

    Losses are told that an anchor and its positive are alike, and an anchor and its
    negative unlike; a pair that is both in different triplets is unknown. The triplet
    loss takes the triplets as they are, unless more follows from them.
    """

    dataset: Dataset
    path: str
    triplets: Tensor
    """int64 (t, 3)."""
    protocol: str
    parts: Split
    other_pairs: str
    """What pairs are that are not named, as in the settings."""

    figure: ClassVar[str] = "accuracy"
    title: ClassVar[str] = "triplet accuracy"

    @classmethod
    def read(cls, dataset: Dataset, settings: DataSettings) -> "ByTriplets":
        """Of the table that the settings name.

        Raises:
            InputError: of the table; or a part has no triplet.
        """
        path = settings.triplets or ""
        triplets = read_triplets(path, dataset)
        protocol = replace(pair_protocol(settings), by=settings.protocol or "items")
        alike, unlike = triplets[:, [0, 1]], triplets[:, [0, 2]]
        count, seed = len(dataset), settings.split_seed
        parts = protocol.split(alike, unlike, count, seed)
        by, others = protocol.by or "items", settings.other_pairs
        made = cls(dataset, path, triplets, by, parts, others)
        made._check_parts()
        return made

    def batches(self, config: TrainingConfig, train: Tensor) -> Batches:
        """Triplets in random order."""
        refuse_label_settings(config)
        size = config.run.batch_size or len(train)
        listed = ListedTriplets(self.training, size, config.run.seed)
        as_given = config.loss.name == "triplet" and self.others == "unknown"
        return listed if as_given else WithoutTriplets(listed)

    def target(self, indices: Tensor) -> Relations:
        """What the triplets say of the pairs of a batch."""
        return self.relations.of(indices)

    def score(
        self, coder: Coder, embed: Embed, queries: Tensor, database: Tensor
    ) -> dict[str, float]:
        """The share of triplets in order, by floats and by codes."""
        asked = self._asked(queries, database)
        count = len(asked)
        pairs = torch.cat([asked[:, [0, 1]], asked[:, [0, 2]]])
        alike = torch.arange(len(pairs)) < count
        return scores(coder, embed, Asked(pairs, alike), _accuracy)

    def card(
        self, config: TrainingConfig, split: Split, bits: int | None
    ) -> dict[str, Any]:
        """What was learned from, and what is measured."""
        test = self._asked(split.queries, split.database)
        return {
            "protocol": {"name": self.protocol, **config.data.protocol_options},
            "rules": RULES,
            "card": {
                "queries": len(test[:, 0].unique()),
                "training": len(split.train),
                "database": len(test.unique()),
                "split_hashes": [split.hash],
                "triplets": self.path,
                "triplets_hash": file_hash(self.path),
            },
            "facts": {
                "training triplets": f"{len(self.training):,}, other pairs "
                f"{self.others}",
                "held-out triplets": f"{len(test):,}",
            },
        }

    @cached_property
    def training(self) -> Tensor:
        """The triplets whose three items train, (t, 3)."""
        return self.triplets[torch.isin(self.triplets, self.parts.train).all(dim=1)]

    @cached_property
    def pairs(self) -> Pairs:
        """What the training triplets say of pairs."""
        return pairs_of_triplets(self.training)

    @cached_property
    def others(self) -> str:
        """What training pairs are that are not named: unlike, unknown or inferred."""
        return others_of(self.other_pairs, self.pairs, len(self.dataset))

    @cached_property
    def relations(self) -> RelationsOf:
        """What is known of any training items."""
        items, count = self.parts.train, len(self.dataset)
        return relations_of(self.others, self.pairs, items, count)

    def _asked(self, queries: Tensor, database: Tensor) -> Tensor:
        """Triplets of the queries (t, 3), compared with queries and database."""
        asking = evenly(queries[torch.isin(queries, self.triplets[:, 0])], MOST_ASKING)
        known = torch.isin(self.triplets[:, 1:], torch.cat([queries, database]))
        ours = torch.isin(self.triplets[:, 0], asking) & known.all(dim=1)
        return self.triplets[ours]

    def _check_parts(self) -> None:
        parts = self.parts
        found = {
            "training": self.training,
            "held-out": self._asked(parts.queries, parts.database),
        }
        if len(parts.validation):
            searched = parts.validation_database
            found["validation"] = self._asked(parts.validation, searched)
        for name, triplets in found.items():
            if not len(triplets):
                raise InputError(
                    f"{self.path}: no triplet is left for the {name} part, of "
                    f"{len(self.triplets)} triplets; it needs more, or other shares: "
                    "data.validation, data.protocol_options.queries"
                )


def pairs_of_triplets(triplets: Tensor) -> Pairs:
    """Anchors and positives as alike, anchors and negatives as unlike pairs.

    A pair that is both, in triplets (t, 3), is left out.
    """
    pairs = torch.cat([triplets[:, [0, 1]], triplets[:, [0, 2]]]).sort(dim=1).values
    alike = torch.arange(len(pairs)) < len(triplets)
    unique, places = pairs.unique(dim=0, return_inverse=True)
    times = torch.zeros(len(unique), 2, dtype=torch.int64)
    times.index_put_((places, alike.long()), torch.ones_like(places), accumulate=True)
    clear = (times > 0).sum(dim=1) == 1
    return Pairs(unique[clear], (times[clear, 1] > 0).float(), graded=False)


def _accuracy(
    distances: Distances, pairs: Tensor, alike: Tensor, own: Tensor
) -> dict[str, float]:
    apart = pair_distances(distances, pairs)
    near, far = apart[alike], apart[~alike]  # in the order of the triplets
    right = (near < far).double() + (near == far).double() / 2
    return {"accuracy": float(right.mean())}
