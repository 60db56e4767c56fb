"""How a linear layer over ready vectors starts: as their principal axes.

A random start throws away what a trained trunk knows of classes that the labels do not
have, and training brings back only what the labels ask for. Principal axes keep it.
"""

from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.inference.trunk import Trunk
from gradsnap.networks import Network, start_principal
from gradsnap.networks.normalization import MeanLength
from gradsnap.training.config import TrainingConfig
from gradsnap.training.feed import Feed
from gradsnap.training.learner import trunk_is_kept

VARIANCE = 10.0
"""Of embeddings at the start. Two of them are then a squared distance of 20 apart on
average, a few for each temperature of a contrastive loss."""

ROWS = 20_000
"""So many training items at most show where the axes lie."""


def start(network: Network, feed: Feed, config: TrainingConfig) -> None:
    """Gives the embedding layer its first weights, the same on every process.

    Raises:
        InputError: axes are asked for, and cannot be had.
    """
    if not trunk_is_kept(config):
        _fit_normalization(network, feed)
    way = config.network.start
    if way == "kept-axes":
        network.requires_grad_(False)
        start_principal(_linear(network), _inputs(network, feed, config))
    elif way == "axes" or (way == "auto" and _is_ready(network, config)):
        rows = _inputs(network, feed, config)
        if way == "axes" or _has_axes(network.feat, rows):
            start_principal(_linear(network), rows, VARIANCE)
    feed.processes.share_from_first(network.feat)


def _is_ready(network: Network, config: TrainingConfig) -> bool:
    """Whether the layer stands on vectors that mean something from the start."""
    blocks = (block.parameters() for block in network.blocks())
    trains = any(one.requires_grad for block in blocks for one in block)
    return (trunk_is_kept(config) or config.network.name == "head") and not trains


def _has_axes(feat: nn.Module, rows: Tensor) -> bool:
    """Whether rows (n, inputs) have as many axes as the layer has outputs."""
    if not isinstance(feat, nn.Linear) or min(rows.shape) <= feat.out_features:
        return False
    return bool((rows != rows[0]).any())


def _linear(network: Network) -> nn.Linear:
    if isinstance(network.feat, nn.Linear):
        return network.feat
    raise InputError(
        f"network.start needs a linear embedding layer for axes, and this one is a "
        f"{type(network.feat).__name__}; choose network.start=random"
    )


def _fit_normalization(network: Network, feed: Feed) -> None:
    """Shows vectors to a normalization that must know how long they are."""
    own = getattr(network, "normalization", None)
    if isinstance(own, MeanLength):
        own.fit(feed.embed(nn.Identity(), _sample(feed)))
        feed.processes.share_from_first(own)


def _inputs(network: Network, feed: Feed, config: TrainingConfig) -> Tensor:
    """What the layer sees of training items, (n, inputs)."""
    kept = trunk_is_kept(config)
    before: nn.Module = nn.Identity() if kept else Trunk(network)
    return feed.embed(before, _sample(feed))


def _sample(feed: Feed) -> Tensor:
    train = feed.split.train
    return train[:: max(1, len(train) // ROWS)][:ROWS]
