"""An empty index and the model for its items, as a source of data needs them."""

from typing import Any

from torch import nn

from gradsnap.coders import CODERS
from gradsnap.collection.pretrained import BITS, pretrained_model
from gradsnap.data import Dataset
from gradsnap.index import INDEXES, HalfPrecision, Index
from gradsnap.inference.embedding import EmbeddingStream
from gradsnap.inference.model import Model
from gradsnap.registry import chosen

SAMPLE = 65_536
"""Items that lists and codebooks are learned from."""

VECTOR_BITS = 64


def modelled(
    dataset: Dataset,
    model: Model | None,
    new_coder: tuple[str, int | None],
    workers: int,
) -> tuple[Model, EmbeddingStream]:
    """The model of the items and their embeddings: given, pretrained, or none.

    Args:
        dataset: images or vectors.
        model: the one that was named; None for a pretrained one, or for vectors none.
        new_coder: kind and bits of the coder where no model is given.
        workers: processes that read and decode.
    """
    kind, bits = new_coder
    if model is not None:
        return model, model.stream(model.prepared(dataset), workers)
    if dataset.holds_images:
        return pretrained_model(dataset, kind, bits or BITS, workers)
    length = dataset.item_shape[0]
    made = chosen(CODERS, kind, "coder").of_bits(length, bits or VECTOR_BITS)
    model = Model(nn.Identity(), made)
    return model, model.stream(dataset, workers)


def new_index(
    model: Model,
    stream: EmbeddingStream,
    kind: str,
    keep_half: bool,
    options: dict[str, Any],
) -> Index:
    """An empty index, fitted to a sample where it learns something."""
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


def stream_for(dataset: Dataset, model: Model | None, workers: int) -> EmbeddingStream:
    """Embeddings of the items; vectors alone are embeddings already."""
    if model is None:
        return EmbeddingStream(dataset, nn.Identity(), workers)
    return model.stream(model.prepared(dataset), workers)
