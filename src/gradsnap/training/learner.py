"""Everything that changes while a run trains, built from its configuration."""

import dataclasses
import inspect
import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from gradsnap.coders.quantizers import QUANTIZERS, Quantizer
from gradsnap.errors import InputError
from gradsnap.layers.rivals import LAYERS
from gradsnap.layers.rules import SnappingRule
from gradsnap.layers.snapping import GradientSnapping
from gradsnap.losses import build_loss
from gradsnap.networks import (
    Network,
    build_network,
    freeze,
    network_builder,
    parameter_groups,
)
from gradsnap.training.config import (
    LossSettings,
    NetworkSettings,
    QuantizerSettings,
    SnappingSettings,
    TrainingConfig,
)
from gradsnap.training.feed import Batch
from gradsnap.triplets import SELECTORS, Selector

MOST_BITS_A_CODEBOOK = 8


@dataclasses.dataclass(eq=False)
class Learner:
    """What is trained, and the step it has come to."""

    network: Network
    trained: nn.Module
    """The network, or its last layer alone where the trunk is frozen and kept."""
    quantizer: Quantizer
    layer: nn.Module
    """Between embeddings and loss: ``GradientSnapping`` or a rival."""
    criterion: "Criterion"
    optimizer: Optimizer
    step: int = 0
    best: float = -1.0
    """The best code MAP on the validation part so far."""

    def parts(self) -> dict[str, nn.Module]:
        """The modules with a state to keep, by name."""
        return {
            "network": self.network,
            "quantizer": self.quantizer,
            "criterion": self.criterion,
        }


class Criterion(nn.Module):
    """A loss, with a choice of triplets where it takes those."""

    def __init__(self, loss: nn.Module, selector: Selector | None) -> None:
        super().__init__()
        self.loss = loss
        self.selector = selector

    def forward(self, embeddings: Tensor, batch: Batch) -> Tensor:
        """The scalar loss of embeddings (n, dim) of all rows of the batch."""
        triplets = batch.triplets
        if self.selector is not None:
            triplets = self.selector.select(embeddings.detach(), batch.labels)
        given = () if triplets is None else (triplets,)
        loss: Tensor = self.loss(embeddings, batch.labels, *given)
        return loss


def new_learner(
    config: TrainingConfig, num_classes: int, network: Network, device: torch.device
) -> Learner:
    """A learner at step 0; what is random in it depends on the seed alone."""
    network = network.to(device)
    quantizer = new_quantizer(config.quantizer, network.dim, config.run.seed).to(device)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.run.seed)
        criterion = new_criterion(config.loss, network.dim, num_classes).to(device)
    return Learner(
        network=network,
        trained=network.feat if trunk_is_kept(config) else network,
        quantizer=quantizer,
        layer=new_layer(config.snapping, quantizer),
        criterion=criterion,
        optimizer=_new_optimizer(config, network, criterion),
    )


def trunk_is_kept(config: TrainingConfig) -> bool:
    """Whether the trunk's outputs are computed once: frozen, and images unchanged."""
    return config.network.trainable_blocks == 0 and not config.data.augment


def new_network(settings: NetworkSettings, seed: int) -> Network:
    """The network of the settings, frozen as they say."""
    options = dict(settings.options)
    if settings.dim is not None:
        options["dim"] = settings.dim
    network = build_network(settings.name or "", seed, **_tupled(options))
    blocks = settings.trainable_blocks
    return network if blocks is None else freeze(network, blocks)


def untrained_network(settings: NetworkSettings) -> Network:
    """The network of the settings without loading any weights, to be filled later."""
    builder = network_builder(settings.name or "")
    options = dict(settings.options)
    if "weights" in inspect.signature(builder).parameters:
        options["weights"] = None
    return new_network(dataclasses.replace(settings, options=options), seed=0)


def new_quantizer(settings: QuantizerSettings, dim: int, seed: int) -> Quantizer:
    """An unfitted quantizer of the settings' bits.

    Raises:
        InputError: the bits cannot be divided among codebooks, or an unknown option.
    """
    kind = QUANTIZERS[settings.kind]
    size = settings.codebook_size or codebook_size(settings.bits)
    each = size.bit_length() - 1
    if size != 2**each or settings.bits % each:
        raise InputError(
            f"quantizer.bits {settings.bits} cannot be made of codebooks of {size} "
            f"codewords: it must be a multiple of {each}, and {size} a power of two"
        )
    known = inspect.signature(kind).parameters
    unknown = sorted(settings.options.keys() - known.keys())
    if unknown:
        raise InputError(
            f"the quantizer {settings.kind!r} has no option {', '.join(unknown)}; "
            f"it has {', '.join(known)}"
        )
    options: dict[str, Any] = {"decay": settings.decay, "seed": seed} | settings.options
    return kind(dim, settings.bits // each, size, **options)


def codebook_size(bits: int) -> int:
    """Codewords a codebook: as many as divide the bits evenly, at most 256.

    >>> [codebook_size(bits) for bits in (12, 20, 24, 32)]
    [64, 32, 256, 256]
    """
    each = range(MOST_BITS_A_CODEBOOK, 0, -1)
    return 1 << next(one for one in each if bits % one == 0)


def new_criterion(settings: LossSettings, dim: int, num_classes: int) -> Criterion:
    """The loss of the settings, with its selection of triplets."""
    loss = build_loss(settings.name, dim, num_classes, **settings.options)
    chosen = settings.name == "triplet" and settings.triplets in SELECTORS
    if not chosen or settings.triplets == "batch-all":  # all is the loss's own way
        return Criterion(loss, None)
    try:
        return Criterion(loss, SELECTORS[settings.triplets](**settings.triplet_options))
    except TypeError as error:
        raise InputError(f"loss.triplet_options: {error}") from error


def new_layer(settings: SnappingSettings, quantizer: Quantizer) -> nn.Module:
    """The layer between embeddings and loss."""
    if settings.layer != "snapping":
        return LAYERS[settings.layer](quantizer)
    rule = SnappingRule(settings.strength)
    return GradientSnapping(quantizer, settings.neighbors, rule)


def _new_optimizer(
    config: TrainingConfig, network: Network, criterion: nn.Module
) -> Optimizer:
    settings = config.optimizer
    groups = parameter_groups(
        network,
        settings.rate,
        settings.trunk_rate,
        settings.layer_decay,
        network.fresh,
    )
    own = list(criterion.parameters())
    if own:
        groups.append({"params": own, "lr": settings.rate})
    for group in groups:
        group["first_lr"] = group["lr"]  # what the schedule multiplies
    if settings.name == "sgd":
        return SGD(
            groups,
            lr=settings.rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
    return AdamW(groups, lr=settings.rate, weight_decay=settings.weight_decay)


def trainable(learner: Learner) -> list[nn.Parameter]:
    """Every parameter that the optimizer moves."""
    groups = (group["params"] for group in learner.optimizer.param_groups)
    return list(itertools.chain.from_iterable(groups))


def _tupled(options: dict[str, Any]) -> dict[str, Any]:
    """Lists, which TOML has, as the tuples that networks take."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
