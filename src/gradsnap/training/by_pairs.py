"""Learning from pairs: which items are alike and which are not, by a table."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.data import Dataset, PairProtocol, Pairs, Split, file_hash, read_pairs
from gradsnap.errors import InputError
from gradsnap.losses import Relations
from gradsnap.training.batches import Anchored, Batches, Partners
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.known_pairs import RelationsOf, others_of, relations_of
from gradsnap.training.pair_scores import (
    MOST_ASKING,
    Asked,
    evenly,
    of_pairs,
    of_partners,
    scores,
)
from gradsnap.training.scoring import Embed
from gradsnap.training.without_labels import WithoutLabels
from gradsnap.triplets import SAMPLERS


@dataclass(frozen=True, eq=False)
class ByPairs(WithoutLabels):
    """A table says of some pairs whether they are alike.

    Judged by how well distances tell alike from unlike pairs of held-out items; where
    there are no unlike ones, by how early an item finds its partners among the others.
    """

    dataset: Dataset
    path: str
    pairs: Pairs
    protocol: str
    """One of ``PAIR_PROTOCOLS``."""
    parts: Split
    other_pairs: str
    """What pairs are that are not named, as in the settings."""

    @classmethod
    def read(cls, dataset: Dataset, settings: DataSettings) -> "ByPairs":
        """Of the table that the settings name.

        Raises:
            InputError: of the table; or a part has no alike pair.
        """
        path = settings.pairs or ""
        pairs = read_pairs(path, dataset, settings.similar_above)
        protocol = pair_protocol(settings)
        alike, unlike = pairs.items[pairs.alike], pairs.items[~pairs.alike]
        name = protocol.chosen(alike, len(dataset))
        parts = protocol.split(alike, unlike, len(dataset), settings.split_seed)
        made = cls(dataset, path, pairs, name, parts, settings.other_pairs)
        made._check_parts()
        return made

    @property
    def figure(self) -> str:
        """``ap`` where both kinds of pairs are held out, else ``partner_map``."""
        return "ap" if self._judged_by_pairs else "partner_map"

    @property
    def title(self) -> str:
        """The figure in words."""
        return "pair AP" if self._judged_by_pairs else "partner MAP"

    def batches(self, config: TrainingConfig, train: Tensor) -> Batches:
        """Items with a partner that is alike, and with one that is not."""
        refuse_label_settings(config)
        pairs = self.training
        kinds = (pairs.items[pairs.alike], pairs.items[~pairs.alike])
        lists = [Partners.of(kind, len(self.dataset)) for kind in kinds if len(kind)]
        size = config.run.batch_size or len(train)
        return Anchored(pairs.items.unique(), tuple(lists), size, config.run.seed)

    def target(self, indices: Tensor) -> Relations:
        """What is known of the batch."""
        return self.relations.of(indices)

    def score(
        self, coder: Coder, embed: Embed, queries: Tensor, database: Tensor
    ) -> dict[str, float]:
        """Figures of floats and codes; the pairs of the queries are ranked."""
        asked = self.asked(queries, database)
        if self._judged_by_pairs:
            return scores(coder, embed, asked, of_pairs)
        return scores(coder, embed, asked.alike_alone(), of_partners)

    def card(
        self, config: TrainingConfig, split: Split, bits: int | None
    ) -> dict[str, Any]:
        """What was learned from, and what is measured."""
        test = self.asked(split.queries, split.database)
        training, alike = self.training, int(self.training.alike.sum())
        return {
            "protocol": {"name": self.protocol, **config.data.protocol_options},
            "rules": self._rules,
            "card": {
                "queries": len(test.pairs[:, 0].unique()),
                "training": len(split.train),
                "database": len(test.pairs.unique()),
                "split_hashes": [split.hash],
                "pairs": self.path,
                "pairs_hash": file_hash(self.path),
            },
            "facts": {
                "training pairs": f"{alike:,} alike, {len(training) - alike:,} unlike, "
                f"others {self.others}",
                "held-out pairs": f"{int(test.alike.sum()):,} alike, "
                f"{int((~test.alike).sum()):,} unlike",
            },
        }

    @cached_property
    def training(self) -> Pairs:
        """The pairs whose two ends train."""
        ours = torch.isin(self.pairs.items, self.parts.train).all(dim=1)
        pairs = self.pairs
        return Pairs(pairs.items[ours], pairs.grades[ours], pairs.graded)

    @cached_property
    def others(self) -> str:
        """What training pairs are that are not named: unlike, unknown or inferred."""
        return others_of(self.other_pairs, self.training, len(self.dataset))

    @cached_property
    def relations(self) -> RelationsOf:
        """What is known of any training items."""
        items, count = self.parts.train, len(self.dataset)
        return relations_of(self.others, self.training, items, count)

    def asked(self, queries: Tensor, database: Tensor) -> Asked:
        """The pairs of queries with what they were compared with.

        By components that is another query, since an item that has trained is easily
        told from one that has not; by items it may be of the database too.
        """
        whole = self.protocol == "components"
        searched = queries if whole else torch.cat([queries, database])
        queries = evenly(queries[torch.isin(queries, self.pairs.items)], MOST_ASKING)
        both = torch.cat([self.pairs.items, self.pairs.items.flip(1)])
        ours = torch.isin(both[:, 0], queries) & torch.isin(both[:, 1], searched)
        return Asked(both[ours], self.pairs.alike.repeat(2)[ours])

    @cached_property
    def _judged_by_pairs(self) -> bool:
        return all(part.both_kinds for part in self._judged.values())

    @property
    def _rules(self) -> str:
        if self._judged_by_pairs:
            return (
                "average precision of held-out pairs, nearest first, alike against "
                "unlike; ties: expected over random order"
            )
        return (
            "each held-out item ranks the items that held-out pairs name; mean average "
            "precision of its partners; ties: expected over random order"
        )

    @cached_property
    def _judged(self) -> dict[str, Asked]:
        parts = self.parts
        judged = {"held-out": self.asked(parts.queries, parts.database)}
        if len(parts.validation):
            ours = self.asked(parts.validation, parts.validation_database)
            judged["validation"] = ours
        return judged

    def _check_parts(self) -> None:
        found = {name: part.alike for name, part in self._judged.items()}
        found |= {"training": self.training.alike}
        for name, alike in found.items():
            if not alike.any():
                raise InputError(
                    f"{self.path}: no alike pair is left for the {name} part, of "
                    f"{int(self.pairs.alike.sum())} alike pairs divided by "
                    f"{self.protocol}; it needs more pairs, "
                    f"data.protocol={_other(self.protocol)}, or other shares: "
                    "data.validation, data.protocol_options.queries"
                )


def pair_protocol(settings: DataSettings) -> PairProtocol:
    """How the settings divide items that are in pairs."""
    options = settings.protocol_options
    unknown = sorted(options.keys() - {"queries"})
    if unknown:
        raise InputError(
            f"the protocol of pairs has no option {', '.join(unknown)}; it has queries"
        )
    by, validation = settings.protocol, settings.validation
    return PairProtocol(by=by, validation=validation, **options)


def refuse_label_settings(config: TrainingConfig) -> None:
    """Refuses settings of batches that are drawn by labels."""
    if config.run.items_per_class:
        raise InputError("run.items_per_class needs labels, and this run has none")
    if config.loss.name == "triplet" and config.loss.triplets in SAMPLERS:
        raise InputError(
            f"loss.triplets={config.loss.triplets} draws by labels, and this run has "
            "none: choose batch-all, batch-hard or semi-hard"
        )


def _other(protocol: str) -> str:
    return "items" if protocol == "components" else "components"
