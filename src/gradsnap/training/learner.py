"""Everything that changes while a run trains, built from its configuration."""

import dataclasses
import itertools

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from gradsnap.coders import CODERS, Coder, Quantizer
from gradsnap.errors import InputError
from gradsnap.layers import LAYERS, build_layer
from gradsnap.methods import Method, every_loss, every_regularizer
from gradsnap.networks import (
    Network,
    build_network,
    freeze,
    import_network,
    parameter_groups,
)
from gradsnap.registry import build, check_options, chosen, default_options
from gradsnap.training.config import (
    CoderSettings,
    LayerSettings,
    LossSettings,
    NetworkSettings,
    TrainingConfig,
)
from gradsnap.triplets import SELECTORS, Selector


@dataclasses.dataclass(eq=False)
class Learner:
    """What is trained, and the step it has come to."""

    network: Network
    trained: nn.Module
    """The network, or its last layer alone where the trunk is frozen and kept."""
    method: Method
    """Loss, regularizer, layer and coder."""
    optimizer: Optimizer
    step: int = 0
    best: float = -1.0
    """How well codes ranked on the validation part at best so far."""
    first_fit: Coder | None = None
    """The coder as it was fitted to the training part, where the network stays."""

    def parts(self) -> dict[str, nn.Module]:
        """The modules with a state to keep, by name; the layer shares the coder's."""
        return {
            "network": self.network,
            "coder": self.method.coder,
            "loss": self.method.loss,
            "regularizer": self.method.regularizer,
        }

    def codebooks(self) -> list[Tensor]:
        """Codebooks that learn by gradient; none where they follow in other ways."""
        coder = self.method.coder
        if isinstance(coder, Quantizer) and coder.codebooks.requires_grad:
            return [coder.codebooks]
        return []

    def trainable(self) -> list[Tensor]:
        """Everything that the optimizer moves."""
        groups = (group["params"] for group in self.optimizer.param_groups)
        return list(itertools.chain.from_iterable(groups))


def new_learner(
    config: TrainingConfig,
    num_classes: int,
    network: Network,
    device: torch.device,
    labels: Tensor | None = None,
) -> Learner:
    """A learner at step 0; what is random in it depends on the seed alone.

    Args:
        config: of the run.
        num_classes: of the data set.
        network: what is trained.
        device: of network and method.
        labels: of the training part, (n,) or (n, L), for a loss that asks for them.
    """
    network = network.to(device)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.run.seed)
        method = new_method(config, network.dim, num_classes, labels).to(device)
    if config.coder.learn in ("gradient", "both"):
        let_codebooks_learn(method.coder)
    return Learner(
        network=network,
        trained=network.feat if trunk_is_kept(config) else network,
        method=method,
        optimizer=_new_optimizer(config, network, method),
    )


def trunk_is_kept(config: TrainingConfig) -> bool:
    """Whether the trunk's outputs are computed once: frozen, and images unchanged."""
    return config.network.trainable_blocks == 0 and not config.data.augment


def new_network(
    settings: NetworkSettings, seed: int, network_from: str | None = None
) -> Network:
    """The network of the settings, frozen as they say.

    Args:
        settings: of the network.
        seed: of its fresh weights.
        network_from: the import path of what builds it, from the user's own mouth;
            never read from a file.
    """
    own: dict[str, object] = settings.options | {"feat": settings.feat}
    if settings.dim is not None:
        own["dim"] = settings.dim
    if network_from is not None:
        network: Network = import_network(network_from, seed, **own)  # type: ignore[arg-type]
    else:
        network = build_network(settings.name or "", seed, **own)  # type: ignore[arg-type]
    blocks = settings.trainable_blocks
    return network if blocks is None else freeze(network, blocks)


def new_coder(settings: CoderSettings, dim: int, seed: int) -> Coder:
    """An unfitted coder of the settings' bits, for embeddings of length ``dim``.

    Raises:
        InputError: bits that cannot be had, or an unknown option.
    """
    kind = chosen(CODERS, settings.kind, "coder")
    check_coder_options(settings)
    own = {"seed": seed} | settings.options
    try:
        return kind.of_bits(dim, settings.bits, settings.codebook_size, **own)
    except (TypeError, InputError) as error:
        raise InputError(f"coder {settings.kind!r}: {error}") from error


def check_coder_options(settings: CoderSettings) -> None:
    """Refuses options that the coder does not have, or values of another type."""
    kind = chosen(CODERS, settings.kind, "coder")
    check_options(kind, f"coder {settings.kind!r}", settings.options, SIZES)


FIRST_RATE = 1e-3
"""Learning rate where the settings leave it open."""

SIZES = ("dim", "num_codebooks", "codebook_size", "bits")
"""What a coder gets from its bits and the network."""


def new_method(
    config: TrainingConfig, dim: int, num_classes: int, labels: Tensor | None = None
) -> Method:
    """Loss, regularizer, layer and coder of the configuration."""
    coder = new_coder(config.coder, dim, config.run.seed)
    sizes = {
        "dim": dim,
        "num_classes": num_classes,
        "bits": coder.bits,
        "labels": labels,
    }
    loss, regularizer = config.loss, config.regularizer
    return Method(
        loss=build(every_loss(), loss.name, "loss", sizes, loss.options),
        regularizer=build(
            every_regularizer(),
            regularizer.name,
            "regularizer",
            sizes,
            regularizer.options,
        ),
        layer=_new_layer(config.layer, coder),
        coder=coder,
        selector=_selector(loss),
        mixture=loss.mixture,
    )


def _new_layer(settings: LayerSettings, coder: Coder) -> nn.Module:
    """The layer of the settings, with its options after the ramp.

    Raises:
        InputError: an option of the layer, or of the ramp's start, cannot be.
    """
    name, options = settings.name or "plain", settings.options
    # the layer itself refuses what it cannot start from
    build_layer(name, coder, **options | settings.first)
    last = default_options(LAYERS[name]) | options
    for key, first in settings.first.items():
        if not (_is_number(first) and _is_number(last.get(key))):
            raise InputError(
                f"layer.first.{key}: a ramp goes from a number to a number, not from "
                f"{first!r} to {last.get(key)!r}"
            )
    return build_layer(name, coder, **options)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def let_codebooks_learn(coder: Coder) -> None:
    """Makes the codebooks something an optimizer can move.

    They stay the coder's own buffer, so that whatever encodes, saves or fits sees the
    same numbers; moving the coder to another device ends it.

    Raises:
        InputError: the coder has no codebooks.
    """
    if not isinstance(coder, Quantizer):
        raise InputError(
            "coder.learn=gradient needs a quantizer, which has codebooks; a "
            f"{type(coder).__name__} has none: choose coder.learn=stream"
        )
    coder.codebooks.requires_grad_()


def _selector(settings: LossSettings) -> Selector | None:
    """What chooses triplets in a batch; None where the loss takes all or none."""
    chosen_here = settings.name == "triplet" and settings.triplets in SELECTORS
    if not chosen_here or settings.triplets == "batch-all":  # all is the loss's own way
        return None
    return build(
        SELECTORS, settings.triplets, "choice of triplets", {}, settings.triplet_options
    )


def _new_optimizer(
    config: TrainingConfig, network: Network, method: Method
) -> Optimizer:
    settings = config.optimizer
    first = settings.rate if settings.rate is not None else FIRST_RATE
    groups = parameter_groups(
        network,
        first,
        settings.trunk_rate,
        settings.layer_decay,
        network.fresh,
    )
    own = [*method.loss.parameters(), *method.regularizer.parameters()]
    if own:
        groups.append({"params": own, "lr": first})
    if isinstance(method.coder, Quantizer) and method.coder.codebooks.requires_grad:
        rate = first * config.coder.rate
        codebooks = {"params": [method.coder.codebooks], "lr": rate}
        groups.append(codebooks | {"weight_decay": 0.0})  # nothing pulls words to zero
    for group in groups:
        group["first_lr"] = group["lr"]  # what the schedule multiplies
    if settings.name == "sgd":
        return SGD(
            groups,
            lr=first,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
    return AdamW(groups, lr=first, weight_decay=settings.weight_decay)
