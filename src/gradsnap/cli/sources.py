"""What a verb works on: a model or a quantizer, and items for it."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gradsnap.coders.quantizers import Quantizer
    from gradsnap.data import Dataset
    from gradsnap.inference.model import Model


class Coder(NamedTuple):
    """What makes codes, and the model it belongs to, if it does."""

    quantizer: "Quantizer"
    model: "Model | None"


def open_coder(path: str) -> Coder:
    """A model folder, or a quantizer file for vectors that are embeddings already."""
    from gradsnap.coders.quantizers import load_coder
    from gradsnap.inference.model import load

    if Path(path).is_file():
        return Coder(load_coder(path), None)
    model = load(path)
    return Coder(model.quantizer, model)


def open_items(
    source: str, root: str | None, model: "Model | None", skip_bad: bool
) -> "Dataset":
    """The items of a source, images read as the model needs them."""
    from gradsnap.data import open_dataset

    data = None if model is None else model.config.data
    side = None if data is None else data.side
    channels = None if data is None else data.channels
    return open_dataset(source, root, side=side, channels=channels, skip_bad=skip_bad)


def open_query(path: str, model: "Model | None") -> "tuple[Tensor, list[str]]":
    """Embeddings (q, dim) of an image, a folder or a file of vectors, and their names.

    Raises:
        InputError: an image is asked for, and there is no model to embed it.
    """
    from gradsnap.data.folders import is_image
    from gradsnap.errors import InputError
    from gradsnap.inference.embedding import embed

    if is_image(path) and model is None:
        raise InputError(
            f"{path} is an image, and the index knows no model to embed it: name one "
            "with --model"
        )
    if is_image(path) and model is not None:
        return embed(model.network, _image(path, model)), [path]
    dataset = open_items(path, None, model, skip_bad=False)
    names = [dataset.names[place] for place in range(len(dataset))]
    return embed(network_for(dataset, model), dataset), names


def network_for(dataset: "Dataset", model: "Model | None") -> "nn.Module":
    """What embeds the items; vectors are embeddings unless the model takes vectors."""
    from torch import nn

    from gradsnap.networks import Head

    vectors = len(dataset.item_shape) == 1
    if model is None or (vectors and not isinstance(model.network, Head)):
        return nn.Identity()
    return model.network


def _image(path: str, model: "Model") -> "Tensor":
    from gradsnap.data import ImageOptions, decode_image

    data = model.config.data
    return decode_image(path, ImageOptions(side=data.side, channels=data.channels))[
        None
    ]
