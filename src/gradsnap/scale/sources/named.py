"""A data set by its name, or a local file of vectors, by ranges of items."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from gradsnap.data import Dataset, open_dataset
from gradsnap.remembered import Remembered
from gradsnap.scale.shard import CHUNK_ROWS, SHARD_ROWS, Chunk, Shard, shard_of


class NamedDataset:
    """What ``gradsnap.data`` opens, each worker for itself.

    Args:
        name: of ``DATASETS``, or a path.
        root: the folder of one that is given by name.
        size: side and channels that images are read at; None for their own.
        rows: of a shard.
    """

    def __init__(
        self,
        name: str,
        root: str | None,
        size: tuple[int | None, int | None] = (None, None),
        rows: int = SHARD_ROWS,
    ) -> None:
        self.name, self.root, self.size, self.rows = name, root, size, rows
        self._opened = Remembered(opened_dataset)

    @property
    def dataset(self) -> Dataset:
        """The data set, opened once in each process."""
        return self._opened(self.name, self.root, self.size)

    @property
    def holds_images(self) -> bool:
        """Whether items are images."""
        return self.dataset.holds_images

    def schema(self) -> Any:
        """Names of images, numbers of vectors; labels where there are any."""
        import pyarrow as arrow

        kind = arrow.string() if self.holds_images else arrow.int64()
        labelled = self.dataset.labels is not None
        label = [("label", self._label_type())] if labelled else []
        return arrow.schema([("id", kind), *label])

    def shards(self) -> Sequence[Shard]:
        """Ranges of items."""
        count = len(self.dataset)
        word = f"{self.name} {self.root or ''}"
        return [
            shard_of(word, [start, stop], stop - start, str(count))
            for start in range(0, count, self.rows)
            for stop in [min(start + self.rows, count)]
        ]

    def read(self, shard: Shard) -> Iterator[Chunk]:
        """The items of a range."""
        dataset = self.dataset
        first, last = shard.part
        for start in range(first, last, CHUNK_ROWS):
            block = torch.arange(start, min(start + CHUNK_ROWS, last))
            items = dataset.items.batch(block)
            names = [dataset.names[place] for place in block.tolist()]
            ids = names if self.holds_images else block.numpy()
            yield Chunk(ids, items.numpy(), self._labels(dataset, block))

    def _labels(self, dataset: Dataset, block: torch.Tensor) -> Any:
        import pyarrow as arrow

        from gradsnap.collection.metadata import labels_of

        found = labels_of(dataset, block)
        if found is None:
            return None
        return arrow.table({"label": arrow.array(found, self._label_type())})

    def _label_type(self) -> Any:
        import pyarrow as arrow

        labels = self.dataset.labels
        several = labels is not None and labels.ndim == 2
        return arrow.list_(arrow.string()) if several else arrow.string()


def opened_dataset(
    name: str, root: str | None, size: tuple[int | None, int | None]
) -> Dataset:
    """The data set, its images at side and channels."""
    dataset = open_dataset(name, root, labelled=False)
    return dataset.reading(*size) if dataset.holds_images else dataset
