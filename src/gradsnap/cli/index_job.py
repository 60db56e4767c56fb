"""What ``gradsnap index`` builds of: items, their model, an empty index."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gradsnap.data import Dataset
    from gradsnap.index import Index
    from gradsnap.inference.embedding import EmbeddingStream
    from gradsnap.inference.model import Model

SAMPLE = 65_536
VECTOR_BITS = 64


class Job(NamedTuple):
    """What was asked for."""

    paths: list[str]
    out: Path
    root: str | None
    skip_bad: bool
    workers: int
    network_from: str | None

    def open(self, skip_bad: bool | None = None) -> "Dataset":
        """The items, bad images left out if asked for."""
        from gradsnap.data import open_dataset

        skips = self.skip_bad if skip_bad is None else skip_bad
        return open_dataset(self.paths[-1], self.root, skip_bad=skips, labelled=False)

    def model(self) -> "Model | None":
        """The model that was named, if one was."""
        from gradsnap.inference.model import load

        return load(self.paths[0], self.network_from) if len(self.paths) == 2 else None


def modelled(
    job: Job,
    dataset: "Dataset",
    model: "Model | None",
    new_coder: tuple[str, int | None],
) -> "tuple[Model, EmbeddingStream]":
    """The model of the items and their embeddings: given, pretrained, or none."""
    from torch import nn

    from gradsnap.coders import CODERS
    from gradsnap.collection.pretrained import BITS, pretrained_model
    from gradsnap.inference.model import Model
    from gradsnap.registry import chosen

    kind, bits = new_coder
    if model is not None:
        return model, model.stream(model.prepared(dataset), job.workers)
    if dataset.holds_images:
        return pretrained_model(dataset, kind, bits or BITS, job.workers)
    length = dataset.item_shape[0]
    made = chosen(CODERS, kind, "coder").of_bits(length, bits or VECTOR_BITS)
    model = Model(nn.Identity(), made)
    return model, model.stream(dataset, job.workers)


def plain_stream(dataset: "Dataset", workers: int) -> "EmbeddingStream":
    """Vectors as they are."""
    from torch import nn

    from gradsnap.inference.embedding import EmbeddingStream

    return EmbeddingStream(dataset, nn.Identity(), workers)


def new_index(
    model: "Model",
    stream: "EmbeddingStream",
    kind: str,
    keep_half: bool,
    options: dict[str, Any],
) -> "Index":
    """An empty index, fitted to a sample where it learns something."""
    from gradsnap.index import INDEXES, HalfPrecision
    from gradsnap.registry import chosen

    kinds = {name: one for name, one in INDEXES.items() if name != "hamming"}
    refiner = HalfPrecision(model.coder.dim) if keep_half else None
    made = chosen(kinds, kind, "--kind").of_size(
        model.coder, len(stream), refiner=refiner, **options
    )
    if made.learns:
        indices, rows = stream.sample(SAMPLE)
        labels = stream.dataset.labels
        made.fit(rows, None if labels is None else labels[indices])
    return made
