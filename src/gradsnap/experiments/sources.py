"""The data of an experiment, and how they are divided."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsnap.data import DATASETS, Dataset, open_dataset
from gradsnap.errors import InputError
from gradsnap.training.by_labels import PROTOCOL_OF

TITLES = {
    "cifar10": "CIFAR-10",
    "mnist": "MNIST",
    "nuswide": "NUS-WIDE",
    "ilsvrc2012": "ILSVRC2012",
}
"""The paper's data sets, as it calls them."""

DIGITS = {
    "protocol": "paper",
    "protocol_options": {"queries_per_class": 20, "training_per_class": 50},
    "validation": 0.2,
}
"""Of scikit-learn's digits, which have some 180 images a class."""

VALIDATION = 0.1


@dataclass(frozen=True)
class Source:
    """A data set by name with its folder, or by path."""

    data: str
    root: str | None = None

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The items, opened once.

        Raises:
            InputError: they are not there, or have no labels.
        """
        dataset = open_dataset(self.data, self.root)
        if dataset.labels is None:
            raise InputError(f"{self.data} has no labels, and retrieval needs them")
        return dataset

    @property
    def slug(self) -> str:
        """A short name for files: of a path its last part.

        >>> Source("cifar10").slug, Source("/data/voc2007-part").slug
        ('cifar10', 'voc2007-part')
        """
        return self.data if self.data in DATASETS else Path(self.data).stem

    @property
    def title(self) -> str:
        """The name to show."""
        return TITLES.get(self.slug, self.slug)

    def stand_in(self, wanted: str) -> str:
        """A sentence where these are not the data that the paper has; else nothing.

        >>> Source("voc2007-part").stand_in("nuswide")
        'Measured on voc2007-part, a stand-in for NUS-WIDE.'
        """
        if self.slug == wanted:
            return ""
        title = TITLES[wanted]
        return f"Measured on {self.title}, a stand-in for {title}."

    def division(self) -> dict[str, Any]:
        """The settings that divide the items: the paper's protocol where it has one."""
        if self.slug == "digits":
            return DIGITS
        protocol = PROTOCOL_OF.get(self.dataset.name, "fraction")
        return {"protocol": protocol, "validation": VALIDATION}
