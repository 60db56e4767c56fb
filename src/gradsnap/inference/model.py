"""A finished model: network and coder that belong together, in a folder.

``weights.safetensors`` holds all that embedding and encoding need; ``config.toml`` and
``card.json`` say how it was trained and how it scored. A folder is data: only networks
and coders of the registries are built from it, and nothing in it is ever run.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.utils.data import DataLoader

from gradsnap.coders import Coder, load_coder
from gradsnap.coders.storage import kind_of, rebuilt_coder
from gradsnap.data import Dataset, ImageOptions, decode_image, open_dataset
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import (
    check_finite,
    make_folder,
    prefixed,
    read_json,
    read_tensors,
    without_prefix,
    write_tensors,
    write_text,
)
from gradsnap.inference.embedding import EmbeddingStream, Items, embed
from gradsnap.inference.network_files import NetworkSpec as NetworkSpec
from gradsnap.inference.network_files import filled_network, spec_of
from gradsnap.networks import Head

if TYPE_CHECKING:
    from gradsnap.index import Index, SearchResult

CONFIG, WEIGHTS, CARD = "config.toml", "weights.safetensors", "card.json"
FORMAT = "gradsnap-model-2"
EARLIER = "gradsnap-model-1"


@dataclass(frozen=True, eq=False)
class Model:
    """What ``gradsnap train`` writes and ``gradsnap.load`` reads."""

    network: nn.Module
    """Makes embeddings; ``nn.Identity()`` where vectors are embeddings already."""
    coder: Coder
    spec: NetworkSpec = field(default_factory=lambda: NetworkSpec(None, {}))
    card: dict[str, Any] = field(default_factory=dict)
    """From which data, by which protocol, and how it scored."""
    folder: Path | None = None
    """Where it was loaded from or saved to."""

    # --- items in, embeddings and codes out ----------------------------------

    def open(self, source: str, root: str | None = None, **options: Any) -> Dataset:
        """The items of a source, images read as the network needs them."""
        return self.prepared(open_dataset(source, root, **options))

    def prepared(self, dataset: Dataset) -> Dataset:
        """The data set, its images read as the network needs them."""
        if not dataset.holds_images:
            return dataset
        return dataset.reading(side=self.spec.side, channels=self.spec.channels)

    def decode_image(self, path: str | os.PathLike[str]) -> Tensor:
        """One image as a batch, uint8 (1, channels, height, width)."""
        options = ImageOptions(side=self.spec.side, channels=self.spec.channels)
        return decode_image(path, options)[None]

    def stream(self, dataset: Dataset, workers: int = 0) -> EmbeddingStream:
        """Embeddings of all items, block by block."""
        return EmbeddingStream(dataset, self.network_for(dataset), workers)

    def embed(self, items: Items, **options: Any) -> Tensor:
        """Embeddings (n, dim) of images as they are loaded, or of vectors.

        Args:
            items: a data set, a DataLoader, or a tensor or NumPy array (n, …).
            options: of ``gradsnap.embed``: indices, batch_size, workers, engine.
        """
        return embed(self.network_for(items), items, **options)

    def encode(self, items: Items, **options: Any) -> Tensor:
        """Codes (n, num_codebooks) of images as they are loaded, or of vectors."""
        device = self.coder.fitted.device
        return self.coder.encode(self.embed(items, **options).to(device)).cpu()

    def search(
        self, index: "Index", items: Items, k: int, **options: Any
    ) -> "SearchResult":
        """The k nearest items of an index to images as they are loaded, or to vectors.

        Args:
            index: made with this model's coder.
            items: the queries: a data set, a DataLoader, or a tensor or array (q, …).
            k: results of each query.
            options: of ``Index.search``: within, rerank.

        Raises:
            InputError: the index was made with another coder.
        """
        self.check_index(index)
        return index.search(self.embed(items), k, **options)

    def check_index(self, index: "Index") -> None:
        """Refuses an index whose codes this model's coder did not make."""
        own = self.coder.fingerprint()
        if index.fingerprint not in (None, own):
            raise InputError(
                f"the index was made with other codebooks ({index.fingerprint[:12]}) "
                f"than this model's ({own[:12]})"
            )

    def network_for(self, items: Items) -> nn.Module:
        """What embeds the items; vectors are embeddings unless the model takes them."""
        if isinstance(items, DataLoader):
            return self.network  # what a loader gives is known when it gives it
        images = items.holds_images if isinstance(items, Dataset) else items.ndim == 4
        takes_vectors = isinstance(self.network, Head) or self.spec.name is None
        return self.network if images or takes_vectors else nn.Identity()

    # --- the folder -----------------------------------------------------------

    def save(self, path: str | os.PathLike[str], config: str | None = None) -> None:
        """Writes the folder's files, each beside and renamed.

        The weights come last: a folder that has them is complete.

        Args:
            path: the folder.
            config: the training's configuration as TOML, for people and ``evaluate``.
        """
        folder = Path(path)
        make_folder(folder)
        tensors = prefixed("network", self.network.state_dict())
        tensors |= prefixed("coder", self.coder.state_dict())
        if config is not None:
            write_text(folder / CONFIG, config)
        write_text(folder / CARD, json.dumps(self.card, indent=2) + "\n")
        write_tensors(folder / WEIGHTS, tensors, self._words())

    def _words(self) -> dict[str, str]:
        return {
            "format": FORMAT,
            "network": json.dumps(vars(self.spec)),
            "kind": kind_of(self.coder),
            "config": json.dumps(self.coder.config()),
        }


def load(path: str | os.PathLike[str], network_from: str | None = None) -> Model:
    """Opens a model folder, or the file of a coder for vectors as they are.

    Runs no code from the files, and downloads nothing.

    Args:
        path: the folder, or a file written by ``Coder.save``.
        network_from: ``package.module:function`` of what builds the network, for a
            model that was trained with one. It is imported and called because you name
            it here; a folder can only say that it needs one.

    Raises:
        InputError: there is no such folder, or it holds no finished model.
        FileFormatError: a file in it is damaged or does not fit.
    """
    if Path(path).is_file():
        return Model(nn.Identity(), load_coder(path))
    folder = Path(path)
    if not (folder / WEIGHTS).is_file():
        raise InputError(
            f"{folder} is no model folder: {WEIGHTS} not found in it; "
            "gradsnap train DATA --out FOLDER writes one"
        )
    tensors, words = read_tensors(folder / WEIGHTS, (FORMAT, EARLIER), "a model")
    if words["format"] == EARLIER:
        words, tensors = _upgraded(folder, tensors)
    spec = spec_of(words, folder / WEIGHTS)
    coder = rebuilt_coder(words, without_prefix("coder", tensors), str(folder))
    weights = without_prefix("network", tensors)
    network = filled_network(spec, folder / WEIGHTS, network_from, weights)
    check_finite(network.state_dict(), str(folder / WEIGHTS))
    network.requires_grad_(False).eval()
    return Model(network, coder, spec, _card(folder / CARD), folder)


def model_of(
    index: "Index", given: str | None = None, network_from: str | None = None
) -> Model:
    """The model an index was made with, or its coder alone for vectors.

    Args:
        index: opened from a folder.
        given: the model folder, if it was moved; None for where the index says it lies,
            in the index folder itself or elsewhere.
        network_from: as of ``load``.

    Raises:
        InputError: the model is not there, or has other codebooks than the index.
    """
    place = place_of_model(index) if given is None else Path(given)
    if place is None:
        return Model(nn.Identity(), index.coder)
    if given is None and not place.is_dir():
        own = Path() if index.origin is None else index.origin.folder
        raise InputError(
            f"the model of {own} is not at {place} any more: name it with --model"
        )
    model = load(place, network_from)
    model.check_index(index)
    return model


def place_of_model(index: "Index") -> Path | None:
    """Where an index says its model lies: in its own folder, or elsewhere."""
    path = index.notes.get("model")
    if path is None:
        return None
    own = Path() if index.origin is None else index.origin.folder
    return own / path  # an absolute one stays


def _upgraded(
    folder: Path, tensors: dict[str, Tensor]
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Words and tensors of a folder that kept both in ``config.toml``."""
    from gradsnap.training.former import former_words  # settings of another time

    coder = prefixed("coder", without_prefix("quantizer", tensors))
    network = prefixed("network", without_prefix("network", tensors))
    return former_words(folder / CONFIG, network), coder | network


def _card(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    card = read_json(path)
    if not isinstance(card, dict):
        raise FileFormatError(f"{path} is damaged: it holds no table")
    return card


__all__ = ["Model", "NetworkSpec", "load", "model_of"]
