"""A trained model: network and codebooks that belong together, in a folder."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradsnap.coders.quantizers import Quantizer
from gradsnap.data import Dataset
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import make_folder, write_text
from gradsnap.inference.embedding import embed
from gradsnap.networks import Network
from gradsnap.tensors import prefixed, read_tensors, without_prefix, write_tensors
from gradsnap.training.config import TrainingConfig
from gradsnap.training.learner import new_quantizer, untrained_network
from gradsnap.training.settings import make_config, read_toml, to_toml

if TYPE_CHECKING:
    from gradsnap.index import Index, SearchResult

CONFIG, WEIGHTS, CARD = "config.toml", "weights.safetensors", "card.json"
FORMAT = "gradsnap-model-1"


@dataclass(frozen=True, eq=False)
class Model:
    """What ``gradsnap train`` writes and ``gradsnap.load`` reads."""

    network: Network
    quantizer: Quantizer
    config: TrainingConfig
    card: dict[str, Any]
    """From which data, by which protocol, and how it scored."""

    def embed(self, items: Dataset | Tensor, **options: Any) -> Tensor:
        """Embeddings (n, dim) of images as they are loaded, or of vectors.

        Args:
            items: a data set, or a tensor (n, …).
            options: of ``gradsnap.embed``: indices, batch_size, workers.
        """
        return embed(self.network, items, **options)

    def encode(self, items: Dataset | Tensor, **options: Any) -> Tensor:
        """Codes (n, num_codebooks) of images as they are loaded, or of vectors."""
        device = self.quantizer.codebooks.device
        return self.quantizer.encode(self.embed(items, **options).to(device)).cpu()

    def search(
        self, index: "Index", items: Dataset | Tensor, k: int, **options: Any
    ) -> "SearchResult":
        """The k nearest items of an index to images as they are loaded, or to vectors.

        Args:
            index: made with this model's codebooks.
            items: the queries, a data set or a tensor (q, …).
            k: results of each query.
            options: of ``Index.search``: within, rerank.

        Raises:
            InputError: the index was made with other codebooks.
        """
        own = self.quantizer.fingerprint()
        if index.fingerprint not in (None, own):
            raise InputError(
                f"the index was made with other codebooks ({index.fingerprint[:12]}) "
                f"than this model's ({own[:12]})"
            )
        return index.search(self.embed(items), k, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the folder's three files, each beside and renamed.

        The weights come last: a folder that has them is complete.
        """
        folder = Path(path)
        make_folder(folder)
        tensors = prefixed("network", self.network.state_dict())
        tensors |= prefixed("quantizer", self.quantizer.state_dict())
        write_text(folder / CONFIG, to_toml(self.config))
        write_text(folder / CARD, json.dumps(self.card, indent=2) + "\n")
        write_tensors(folder / WEIGHTS, tensors, {"format": FORMAT})


def load(path: str | os.PathLike[str]) -> Model:
    """Opens a model folder; runs no code from its files, and downloads nothing.

    A network given by an import path is imported again, which is the one exception.

    Raises:
        InputError: there is no such folder, or it holds no finished model.
        FileFormatError: a file in it is damaged or does not fit.
    """
    folder = Path(path)
    missing = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} is no model folder: {' and '.join(missing)} not found in it; "
            "gradsnap train DATA --out FOLDER writes one"
        )
    config = make_config(read_toml(folder / CONFIG))
    tensors, _ = read_tensors(folder / WEIGHTS, FORMAT, "a model's weights")
    network = untrained_network(config.network)
    quantizer = new_quantizer(config.quantizer, network.dim, config.run.seed)
    try:
        network.load_state_dict(without_prefix("network", tensors))
        quantizer.load_state_dict(without_prefix("quantizer", tensors))
    except RuntimeError as error:
        raise FileFormatError(
            f"{folder / WEIGHTS} does not fit {CONFIG}: {error}"
        ) from error
    network.requires_grad_(False).eval()
    return Model(network, quantizer, config, _card(folder / CARD))


def _card(path: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged: {error}") from error
    return card
