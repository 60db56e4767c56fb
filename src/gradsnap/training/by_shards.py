"""Labels of a source in shards: every process knows those of its own items."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data import NAME_PROTOCOLS, NameProtocol, ShardedDataset, Split
from gradsnap.data.protocols.by_name import NamedParts
from gradsnap.data.shards import Lanes
from gradsnap.errors import InputError
from gradsnap.training.batches import Batches
from gradsnap.training.by_labels import ByLabels
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.lane_batches import LaneBatches, PerClass, Plan, Proportional
from gradsnap.training.processes import Processes
from gradsnap.triplets import SAMPLERS


@dataclass(frozen=True, eq=False, kw_only=True)
class ByShards(ByLabels):
    """Items that share a label are alike; each process has items of its own.

    All processes take part in every call. Indices are numbers in the source.
    """

    dataset: ShardedDataset
    processes: Processes

    @classmethod
    def of(
        cls, dataset: ShardedDataset, settings: DataSettings, processes: Processes
    ) -> "ByShards":
        """What is known of the items of shards.

        Raises:
            InputError: what is asked for needs more than each process knows.
        """
        if settings.pairs is not None or settings.triplets is not None:
            raise InputError(
                f"{dataset.name} is read in shards, and pairs or triplets name items "
                "of all of them: learn from labels"
            )
        if dataset.labels is None or settings.ignore_labels or len(dataset.classes) < 2:
            raise InputError(
                f"{dataset.name} is read in shards, and that needs labels of two "
                "classes or more: a .cls beside each image of a tar file, a column "
                "label in a table, or a folder for each class"
            )
        name = settings.protocol or NAME_PROTOCOLS[0]
        if name not in NAME_PROTOCOLS:
            raise InputError(
                f"data.protocol {name!r} looks at all items; what is read in shards "
                f"is divided by {NAME_PROTOCOLS[0]!r}"
            )
        if settings.workers and not dataset.rows.reader.forks:
            raise InputError(
                f"{dataset.name} cannot be read by data.workers: leave that 0, and "
                "threads read and decode"
            )
        return cls(
            dataset=dataset,
            every_label=dataset.labels,
            protocol=name,
            processes=processes,
        )

    def split(self, settings: DataSettings) -> Split:
        """By the names of items, as samples that all processes share."""
        protocol = _protocol(settings)
        own = protocol.samples(self._parts(settings), self.dataset.first)
        return protocol.split(self.processes.exchanged(own))

    def batches(self, config: TrainingConfig, train: Tensor) -> Batches:
        """Rows from all lanes, or some of each class; of all items that train."""
        loss, seed = config.loss, config.run.seed
        if loss.name == "triplet" and loss.triplets in SAMPLERS:
            raise InputError(
                f"loss.triplets={loss.triplets} draws from all labels, and each "
                "process knows its own: choose batch-all, batch-hard or semi-hard"
            )
        items = np.flatnonzero(self._parts(config.data).train)
        lanes = self.dataset.lanes
        labels = self.every_label.numpy()[items] if config.run.items_per_class else None
        own = Own.of(items, lanes, labels)
        reader = self.dataset.rows.reader
        starts = self.dataset.rows.starts if reader.reads_whole else None
        plan = self._plan(config, own)
        runs = functools.partial(own.runs, starts=starts)
        return LaneBatches(plan, lanes.own, runs, seed)

    def target(self, indices: Tensor) -> Tensor:
        """Their labels, (b,)."""
        return self.labels(indices)

    def labels(self, indices: Tensor) -> Tensor:
        """Labels of items of all processes, (n,)."""
        here = self.dataset.holds(indices)
        own = self.every_label[indices[here] - self.dataset.first]
        return self.processes.filled(own, len(indices), here)

    def is_new_in_validation(self, split: Split) -> bool:
        """No: names are divided, not classes."""
        return False

    def card(
        self, config: TrainingConfig, split: Split, bits: int | None
    ) -> dict[str, Any]:
        """The protocol card, with the numbers of all processes."""
        counts = {"items": self.dataset.total, "skipped": self.dataset.total_left_out}
        return super().card(config, split, bits) | counts

    def _parts(self, settings: DataSettings) -> NamedParts:
        return _protocol(settings).parts(self.dataset.names, settings.split_seed)

    def _plan(self, config: TrainingConfig, own: "Own") -> Plan:
        """How many rows come from where, by what all processes have."""
        run = config.run
        size = run.batch_size or 0
        sizes = own.sizes(self.num_classes if run.items_per_class else 1)
        every = torch.from_numpy(np.concatenate(self.processes.exchanged(sizes)))
        if run.items_per_class:
            return PerClass(every, size, run.items_per_class, run.seed)
        return Proportional(every[:, 0], size, run.seed)


@dataclass(frozen=True, eq=False)
class Own:
    """The training items of one process, by lane and group."""

    items: NDArray[np.int64]
    """Those of one cell after the other, each ascending, (n,)."""
    cells: NDArray[np.int64]
    """Of each, (lane − first lane) · groups + group, ascending, (n,)."""
    lanes: range
    groups: int

    @classmethod
    def of(
        cls, items: NDArray[np.int64], lanes: Lanes, labels: NDArray[np.int64] | None
    ) -> "Own":
        """Ascending items (n,), in groups by labels (n,) from 0, or in one group."""
        cells = lanes.lane_of(items) - lanes.own.start
        groups = 1
        if labels is not None:
            groups = int(labels.max(initial=0)) + 1
            cells = cells * groups + labels
        order = np.argsort(cells, kind="stable")
        return cls(items[order], cells[order], lanes.own, groups)

    def sizes(self, groups: int) -> NDArray[np.int64]:
        """Items of each lane and group, (lanes, groups)."""
        cells = len(self.lanes) * self.groups
        counts = np.bincount(self.cells, minlength=cells).reshape(-1, self.groups)
        return np.pad(counts, ((0, 0), (0, groups - self.groups))).astype(np.int64)

    def runs(
        self, lane: int, group: int, starts: NDArray[np.int64] | None
    ) -> list[Tensor]:
        """The items of a lane and group, as one run or one a shard.

        Args:
            lane: one of this process.
            group: of the items.
            starts: of shards, where each is to be read as a whole.
        """
        cell = (lane - self.lanes.start) * self.groups + group
        items = self.items[slice(*np.searchsorted(self.cells, [cell, cell + 1]))]
        if starts is None:
            return [torch.from_numpy(items)]
        parts = np.split(items, np.searchsorted(items, starts[1:-1]))
        return [torch.from_numpy(part) for part in parts if len(part)]


def _protocol(settings: DataSettings) -> NameProtocol:
    try:
        return NameProtocol(**settings.protocol_options, validation=settings.validation)
    except TypeError as error:
        raise InputError(f"data.protocol_options: {error}") from error
