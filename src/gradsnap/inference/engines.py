"""What computes embeddings: torch, or OpenVINO on a CPU (extra ``openvino``).

An engine is a function of a batch as it is loaded, (b, …), to embeddings (b, dim). The
fast one is checked against torch on the first batch it sees.
"""

import contextlib
import functools
import importlib.util
import logging
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.inference.openvino_network import OpenVinoNetwork as OpenVinoNetwork

logger = logging.getLogger(__name__)

Engine = Callable[[Tensor], Tensor]

BRIEF = "openvino-bf16"
"""OpenVINO in bfloat16: numbers of eight binary digits, on processors that have them.
Nearly twice as fast, and codes that rank as well, though not all of them are equal."""

ENGINES = ("auto", "torch", "openvino", BRIEF)

WORTH_PIXELS = 2**24
"""Reading and compiling take two or three seconds: that pays for some 110 photos of 224
pixels, or for thousands of digits. A count, not a time, so that runs are the same on
every machine."""

CHECKED_ROWS = 4
"""Items of the first batch that torch embeds too."""

TOLERANCE = 1e-3
"""Largest difference to torch, relative to the largest embedding of the batch."""

BRIEF_TOLERANCE = 0.2
"""The same in bfloat16, of lengths of differences and embeddings; seen: .02 to .1."""


def engine_for(
    network: nn.Module,
    count: int,
    item_shape: tuple[int, ...],
    choice: str | Engine = "auto",
) -> Engine:
    """The engine for so many items of a shape.

    Args:
        network: any module; its own ``preprocess`` comes first.
        count: how many items will be embedded.
        item_shape: (c, h, w) or (dim,).
        choice: "torch", "openvino", "openvino-bf16", or "auto": OpenVINO for images on
            a CPU where it is installed and the work is worth compiling for, unless
            another is preferred; or one made before.
    """
    if not isinstance(choice, str):
        return choice
    check_engine(choice)
    plain = functools.partial(run_torch, network, device_of(network))
    images = len(item_shape) == 3 and isinstance(network, nn.Module)
    if choice == "auto" and images and _preferred:
        choice = _preferred[-1]
    if choice in ("openvino", BRIEF):
        return CheckedEngine(network, plain, strict=True, brief=choice == BRIEF)
    pixels = count * torch.Size(item_shape).numel()
    usable = images and device_of(network).type == "cpu" and _openvino_is_there()
    if choice == "auto" and usable and pixels >= WORTH_PIXELS:
        return CheckedEngine(network, plain, strict=False)
    return plain


def check_engine(choice: str) -> None:
    """Refuses what is no engine's name."""
    if choice not in ENGINES:
        raise InputError(
            f"engine cannot be {choice!r}; choose from {', '.join(ENGINES)}"
        )


_preferred: list[str] = []
"""One entry for each ``preferring`` that we are inside of, unless it is "auto"."""


@contextlib.contextmanager
def preferring(choice: str) -> Iterator[None]:
    """Inside, an engine that is left open for images is this one.

    Args:
        choice: of ``ENGINES``; "auto" changes nothing.
    """
    check_engine(choice)
    entered = [] if choice == "auto" else [choice]
    _preferred.extend(entered)
    try:
        yield
    finally:
        for _ in entered:
            _preferred.pop()


def run_torch(network: nn.Module, device: torch.device, items: Tensor) -> Tensor:
    """Embeddings (b, dim) of items (b, …) by the network itself."""
    preprocess = getattr(network, "preprocess", nn.Identity())
    embeddings: Tensor = network(preprocess(items.to(device))).float()
    return embeddings


class CheckedEngine:
    """OpenVINO, compiled at the first batch and compared with torch on it.

    Args:
        network: what is compiled.
        plain: the same by torch.
        strict: whether a difference is an error; else torch goes on, with a warning.
        brief: whether OpenVINO computes in bfloat16.
    """

    def __init__(
        self, network: nn.Module, plain: Engine, *, strict: bool, brief: bool = False
    ) -> None:
        self.network, self.plain, self.strict = network, plain, strict
        self.brief = brief
        self._engine: Engine | None = None

    def __call__(self, items: Tensor) -> Tensor:
        """Embeddings (b, dim) of items (b, …)."""
        if self._engine is None:
            return self._first(items)
        return self._engine(items)

    def _first(self, items: Tensor) -> Tensor:
        few = items[:CHECKED_ROWS]
        expected = self.plain(few)
        try:
            as_loaded = AsLoaded(self.network)
            self._engine = OpenVinoNetwork(as_loaded, few, brief=self.brief)
            _check(self._engine(few), expected, self.brief)
        except InputError as error:
            if self.strict:
                raise
            logger.warning("%s; torch goes on, more slowly", error)
            self._engine = self.plain
        return self._engine(items)


class AsLoaded(nn.Module):
    """A network after its own ``preprocess``: embeddings of items as they are loaded.

    OpenVINO then takes the bytes of images, and normalizes them on the way in.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.prepare: nn.Module = getattr(network, "preprocess", nn.Identity())

    def forward(self, items: Tensor) -> Tensor:
        """Embeddings (n, dim) of items (n, …)."""
        embeddings: Tensor = self.network(self.prepare(items)).float()
        return embeddings


def _check(found: Tensor, expected: Tensor, brief: bool) -> None:
    """Refuses embeddings that are too far from torch's: of a number, or altogether."""
    order = 2.0 if brief else torch.inf
    difference = float(torch.linalg.vector_norm(found - expected, order))
    scale = float(torch.linalg.vector_norm(expected, order))
    tolerance = BRIEF_TOLERANCE if brief else TOLERANCE
    if not difference <= tolerance * scale:  # NaN is not
        raise InputError(
            f"OpenVINO's embeddings differ from torch's by {difference:.3g} of "
            f"{scale:.3g}: choose the engine torch"
        )


def device_of(network: nn.Module) -> torch.device:
    """Where the network's weights are; the CPU if it has none."""
    tensor = next(network.parameters(), next(network.buffers(), None))
    return torch.device("cpu") if tensor is None else tensor.device


@functools.cache
def _openvino_is_there() -> bool:
    return importlib.util.find_spec("openvino") is not None
