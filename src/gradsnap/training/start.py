"""How a linear layer over ready vectors starts: as their principal axes.

A random start throws away what a trained trunk knows of classes that the labels do not
have, and training brings back only what the labels ask for. Principal axes keep it.
"""

import torch
from torch import Tensor, nn

from gradsnap.inference.trunk import Trunk
from gradsnap.networks.normalization import MeanLength
from gradsnap.training.config import TrainingConfig
from gradsnap.training.feed import Feed
from gradsnap.training.learner import Learner, trunk_is_kept

SPREAD = 20.0
"""Mean squared distance of two embeddings at the start: a few for each temperature of a
contrastive loss, and of the order that a random start has."""

ROWS = 20_000
"""So many training items at most show where the axes lie."""


def start(learner: Learner, feed: Feed, config: TrainingConfig) -> None:
    """Gives the embedding layer its first weights, the same on every process."""
    feat = learner.network.feat
    if not trunk_is_kept(config):
        _fit_normalization(learner, feed)
    if not (starts_from_axes(learner, config) and isinstance(feat, nn.Linear)):
        return
    rows = _inputs(learner, feed, config)
    if min(rows.shape) > feat.out_features:  # else there are too few axes
        set_to_axes(feat, rows)
    feed.processes.share_from_first(feat)


def starts_from_axes(learner: Learner, config: TrainingConfig) -> bool:
    """Whether the layer stands on vectors that mean something from the start."""
    if config.network.start != "auto":
        return config.network.start == "axes"
    ready = trunk_is_kept(config) or config.network.name == "head"
    return ready and not _trained_blocks(learner)


@torch.no_grad()
def set_to_axes(feat: nn.Linear, rows: Tensor) -> None:
    """Makes the layer a projection of rows (n, inputs) to their principal axes.

    The axes are the eigenvectors of the covariance with the largest eigenvalues, each
    with its largest entry positive; all are scaled alike, to ``SPREAD``.
    """
    mean = rows.mean(dim=0)
    centred = (rows - mean).double()
    _, vectors = torch.linalg.eigh(centred.T @ centred / len(rows))
    axes = vectors[:, -feat.out_features :].flip(1).T  # (dim, inputs)
    largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))
    axes = axes * largest.sign()
    variance = (centred @ axes.T).square().sum(dim=1).mean()
    axes *= (SPREAD / (2 * variance.clamp_min(1e-30))).sqrt()
    feat.weight.copy_(axes)
    feat.bias.copy_(-(axes @ mean.double()))


def _fit_normalization(learner: Learner, feed: Feed) -> None:
    """Shows vectors to a normalization that must know how long they are."""
    own = getattr(learner.network, "normalization", None)
    if isinstance(own, MeanLength):
        own.fit(feed.embed(nn.Identity(), _sample(feed)))
        feed.processes.share_from_first(own)


def _inputs(learner: Learner, feed: Feed, config: TrainingConfig) -> Tensor:
    """What the layer sees of training items, (n, inputs)."""
    kept = trunk_is_kept(config)
    before: nn.Module = nn.Identity() if kept else Trunk(learner.network)
    return feed.embed(before, _sample(feed))


def _sample(feed: Feed) -> Tensor:
    train = feed.split.train
    return train[:: max(1, len(train) // ROWS)][:ROWS]


def _trained_blocks(learner: Learner) -> list[nn.Parameter]:
    """Parameters before the embedding layer that train."""
    blocks = (block.parameters() for block in learner.network.blocks())
    return [one for block in blocks for one in block if one.requires_grad]
