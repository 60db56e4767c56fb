"""Every setting of a training run, with what it means and what it may be.

A field that is None is settled by the data (see ``gradsnap.training.defaults``); the
configuration that is written beside a model has all of them filled in.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gradsnap.coders.quantizers import QUANTIZERS
from gradsnap.data import PROTOCOLS
from gradsnap.layers.rivals import LAYERS
from gradsnap.losses import LOSSES
from gradsnap.triplets import TRIPLETS

Options = dict[str, Any]


def setting(
    default: Any,
    about: str,
    *,
    choices: Iterable[str] | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """A field with its documentation and what it may be."""
    limits = {
        "about": about,
        "choices": None if choices is None else tuple(choices),
        "least": least,
        "most": most,
    }
    return field(default=default, metadata=limits)


def own_options(about: str) -> Any:
    """A field that is a table of options, empty by default."""
    limits = {"about": about, "choices": None, "least": None, "most": None}
    return field(default_factory=dict, metadata=limits)


@dataclass(frozen=True)
class DataSettings:
    """What is learned from, and how it is divided."""

    source: str = setting(
        "digits", "name of a data set, or path of a folder, table or file of vectors"
    )
    root: str | None = setting(None, "folder of a data set that is given by name")
    side: int | None = setting(
        None, "pixels of a side that images are read at; None: as the network needs"
    )
    channels: int | None = setting(
        None, "3 for colour, 1 for grey; None: as the network needs", least=1, most=3
    )
    skip_bad: bool = setting(False, "leave out bad image files and count them")
    protocol: str | None = setting(
        None,
        "how items are divided; None: the paper's for its data sets, else a share",
        choices=PROTOCOLS,
    )
    protocol_options: Options = own_options(
        "of the protocol, such as queries_per_class"
    )
    split_seed: int = setting(0, "draws the division", least=0)
    validation: float = setting(
        0.1, "share of the training part that chooses the best step", least=0, most=0.9
    )
    augment: tuple[str, ...] = setting(
        (),
        "what is done to training images, in this order",
        choices=("projective", "flip", "crop"),
    )
    workers: int = setting(0, "processes that read and decode images", least=0)
    cache: str | None = setting(
        None, "folder for the outputs of a frozen trunk; None: in the model folder"
    )


@dataclass(frozen=True)
class NetworkSettings:
    """What makes embeddings."""

    name: str | None = setting(
        None,
        "alexnet, efficientnet-lite0, small, head, timm/NAME, torchvision/NAME or "
        "package.module:function; None: by the shape of the items",
    )
    dim: int | None = setting(
        None, "length of the embedding; None: the network's", least=1
    )
    options: Options = own_options("the network's own, such as hidden or weights")
    trainable_blocks: int | None = setting(
        None,
        "blocks that train, from the last; 0 freezes the trunk; None: all",
        least=0,
    )
    engine: str = setting(
        "torch",
        "what computes the outputs of a frozen trunk; openvino is faster on a CPU",
        choices=("torch", "openvino"),
    )


@dataclass(frozen=True)
class LossSettings:
    """What the embeddings should achieve."""

    name: str = setting("triplet", "the loss", choices=LOSSES)
    options: Options = own_options("the loss's own, such as margin")
    triplets: str = setting(
        "batch-all", "how the triplet loss's triplets are chosen", choices=TRIPLETS
    )
    triplet_options: Options = own_options("of that choice, such as capacity")


@dataclass(frozen=True)
class QuantizerSettings:
    """What makes codes."""

    kind: str = setting("pq", "the quantizer", choices=QUANTIZERS)
    bits: int = setting(32, "length of a code", least=1)
    codebook_size: int | None = setting(
        None, "codewords in a codebook; None: 256, or fewer if bits need it", least=2
    )
    decay: float = setting(
        0.99, "what an update leaves of the weight of earlier ones", least=0, most=1
    )
    options: Options = own_options("the quantizer's own")
    update_every: int = setting(
        1, "steps from one codebook update to the next", least=1
    )
    refit: str = setting(
        "database",
        "what the codebooks are fitted to when training is over",
        choices=("database", "train", "none"),
    )


@dataclass(frozen=True)
class SnappingSettings:
    """What stands between embeddings and loss, from when on, and how strong."""

    layer: str = setting("snapping", "the layer, or a rival of it", choices=LAYERS)
    strength: float = setting(0.3, "λ, the share of the gradient not turned", least=0)
    neighbors: int = setting(150, "candidates of each row", least=1)
    warmup: float = setting(
        0.2, "share of the steps before the codebooks are fitted", least=0, most=1
    )
    ramp: float = setting(
        0.0,
        "share of the steps after that in which strength and neighbors move from "
        "their first values to their last",
        least=0,
        most=1,
    )
    first_strength: float = setting(1.0, "λ at the start of the ramp", least=0)
    first_neighbors: int | None = setting(
        None, "candidates at the start of the ramp; None: as at its end", least=1
    )


@dataclass(frozen=True)
class OptimizerSettings:
    """How the network moves."""

    name: str = setting("adamw", "the optimizer", choices=("sgd", "adamw"))
    rate: float = setting(1e-3, "learning rate of what starts fresh", least=0)
    trunk_rate: float | None = setting(
        None, "learning rate of the trunk's last block; None: rate", least=0
    )
    layer_decay: float = setting(
        1.0, "how much slower each earlier block learns", least=0, most=1
    )
    momentum: float = setting(0.9, "of sgd", least=0, most=1)
    weight_decay: float = setting(1e-4, "of the weights", least=0)
    schedule: str = setting(
        "cosine", "of the rate", choices=("cosine", "step", "constant")
    )
    milestones: tuple[float, ...] = setting(
        (0.5, 0.75), "shares of the steps at which the step schedule divides by ten"
    )
    clip: float | None = setting(
        None, "largest norm of the whole gradient; None: any", least=0
    )


@dataclass(frozen=True)
class RunSettings:
    """How long, how often, on what."""

    steps: int = setting(2000, "batches to learn from", least=1)
    batch_size: int | None = setting(
        None, "items a batch, over all processes; None: 128, or all there are", least=2
    )
    items_per_class: int = setting(
        0, "items of each class in a batch; 0 takes what comes", least=0
    )
    seed: int = setting(0, "of fresh weights, batches and dropout", least=0)
    monitor_every: int = setting(50, "steps between two records", least=1)
    validate_every: int = setting(200, "steps between two validations", least=1)
    checkpoint_every: int = setting(200, "steps between two checkpoints", least=1)
    score_queries: bool = setting(
        True, "score the finished model on the test queries; false while choosing"
    )
    device: str | None = setting(None, "cpu or cuda; None: cuda where there is one")
    autocast: bool = setting(True, "bfloat16 in the network, on CUDA only")
    compile: bool = setting(False, "compile the network with torch.compile")


@dataclass(frozen=True)
class TrainingConfig:
    """One training run. ``make_config`` reads it from TOML and ``key=value``."""

    data: DataSettings = field(default_factory=DataSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    quantizer: QuantizerSettings = field(default_factory=QuantizerSettings)
    snapping: SnappingSettings = field(default_factory=SnappingSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    run: RunSettings = field(default_factory=RunSettings)
