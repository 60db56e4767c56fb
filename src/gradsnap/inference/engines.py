"""What computes embeddings: torch, or OpenVINO on a CPU (extra ``openvino``).

An engine is a function of a batch as it is loaded, (b, …), to embeddings (b, dim). The
fast one is checked against torch on the first batch it sees.
"""

import functools
import importlib.util
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError

logger = logging.getLogger(__name__)

Engine = Callable[[Tensor], Tensor]

ENGINES = ("auto", "torch", "openvino")

WORTH_PIXELS = 2**22
"""Compiling takes about a second: it pays for some 28 photos of 224 pixels, or for
thousands of digits. A count, not a time, so that runs are the same on every machine."""

CHECKED_ROWS = 4
"""Items of the first batch that torch embeds too."""

TOLERANCE = 1e-3
"""Largest difference to torch, relative to the largest embedding of the batch."""


def engine_for(
    network: nn.Module, count: int, item_shape: tuple[int, ...], choice: str = "auto"
) -> Engine:
    """The engine for so many items of a shape.

    Args:
        network: any module; its own ``preprocess`` comes first.
        count: how many items will be embedded.
        item_shape: (c, h, w) or (dim,).
        choice: "torch", "openvino", or "auto": OpenVINO for images on a CPU where it
            is installed and the work is worth compiling for.
    """
    if choice not in ENGINES:
        raise InputError(
            f"engine cannot be {choice!r}; choose from {', '.join(ENGINES)}"
        )
    plain = functools.partial(run_torch, network, device_of(network))
    if choice == "openvino":
        return CheckedEngine(network, plain, strict=True)
    images = len(item_shape) == 3 and isinstance(network, nn.Module)
    pixels = count * torch.Size(item_shape).numel()
    usable = images and device_of(network).type == "cpu" and _openvino_is_there()
    if choice == "auto" and usable and pixels >= WORTH_PIXELS:
        return CheckedEngine(network, plain, strict=False)
    return plain


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
    """

    def __init__(self, network: nn.Module, plain: Engine, *, strict: bool) -> None:
        self.network, self.plain, self.strict = network, plain, strict
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
            fast = OpenVinoNetwork(self.network, self._ready(few))
            self._engine = functools.partial(run_torch, fast, torch.device("cpu"))
            _check_equal(self._engine(few), expected)
        except InputError as error:
            if self.strict:
                raise
            logger.warning("%s; torch goes on, more slowly", error)
            self._engine = self.plain
        return self._engine(items)

    def _ready(self, items: Tensor) -> Tensor:
        preprocess = getattr(self.network, "preprocess", nn.Identity())
        ready: Tensor = preprocess(items)
        return ready


def _check_equal(found: Tensor, expected: Tensor) -> None:
    difference = float((found - expected).abs().max())
    scale = float(expected.abs().max())
    if not difference <= TOLERANCE * scale:  # NaN is not
        raise InputError(
            f"OpenVINO's embeddings differ from torch's by {difference:.3g} of "
            f"{scale:.3g}: choose the engine torch"
        )


class OpenVinoNetwork(nn.Module):
    """The same outputs as the module's, to rounding, several times as fast on a CPU.

    A copy of the weights as they are now; it cannot be trained. Takes the place of the
    network in ``gradsnap.embed``.

    Args:
        module: a network or a part of one; put into evaluation mode while it is read.
        example: a batch (n, …) it takes; later batches may have any number of rows.
        threads: how many it may use; as many as torch does if not given.

    Raises:
        InputError: OpenVINO is not installed, or cannot read the module.
    """

    def __init__(
        self, module: nn.Module, example: Tensor, threads: int | None = None
    ) -> None:
        super().__init__()
        preprocess = getattr(module, "preprocess", None)
        if isinstance(preprocess, nn.Module):
            self.preprocess = preprocess
        self._compiled = _compile(module, example, threads or torch.get_num_threads())

    def forward(self, items: Tensor) -> Tensor:
        """What the module gives for items (n, …)."""
        output = self._compiled(items.contiguous().numpy())[0]
        return torch.from_numpy(output)


def device_of(network: nn.Module) -> torch.device:
    """Where the network's weights are; the CPU if it has none."""
    tensor = next(network.parameters(), next(network.buffers(), None))
    return torch.device("cpu") if tensor is None else tensor.device


@functools.cache
def _openvino_is_there() -> bool:
    return importlib.util.find_spec("openvino") is not None


def _compile(module: nn.Module, example: Tensor, threads: int) -> Any:
    try:
        import openvino
    except ImportError as error:
        raise InputError(
            "OpenVINO is not installed: pip install 'gradsnap[openvino]'"
        ) from error
    from gradsnap.inference.embedding import evaluating

    try:
        with evaluating(module), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tracer, about constant shapes
            graph = _graph(module, example)
    except Exception as error:  # whatever the reader of a foreign module raises
        raise InputError(
            f"OpenVINO cannot read {type(module).__name__}: {error}"
        ) from error
    exact = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
    }
    return openvino.Core().compile_model(graph, "CPU", exact)


def _graph(module: nn.Module, example: Tensor) -> Any:
    """The module as OpenVINO's graph, for any number of rows.

    Through the frontend itself: ``openvino.convert_model`` reports its use to its
    makers over the network.
    """
    from openvino import PartialShape
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    frontend = FrontEndManager().load_by_framework("pytorch")
    decoder = TorchScriptPythonDecoder(module, example_input=(example,))
    graph = frontend.convert(frontend.load(decoder))
    graph.reshape({graph.inputs[0]: PartialShape([-1, *example.shape[1:]])})
    return graph
