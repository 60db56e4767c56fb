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

WORTH_PIXELS = 2**24
"""Reading and compiling take two or three seconds: that pays for some 110 photos of 224
pixels, or for thousands of digits. A count, not a time, so that runs are the same on
every machine."""

CHECKED_ROWS = 4
"""Items of the first batch that torch embeds too."""

TOLERANCE = 1e-3
"""Largest difference to torch, relative to the largest embedding of the batch."""

TRACED_ROWS = 2

ROWS_AT_ONCE = 16
"""Items that one thread computes at once; more would not stay in its cache."""


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
        choice: "torch", "openvino", or "auto": OpenVINO for images on a CPU where it
            is installed and the work is worth compiling for; or one made before.
    """
    if not isinstance(choice, str):
        return choice
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
            self._engine = OpenVinoNetwork(AsLoaded(self.network), few)
            _check_equal(self._engine(few), expected)
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
        threads = threads or torch.get_num_threads()
        self._order = _order_in_memory(example)
        if self._order != sorted(self._order):
            module = _Permuted(module, self._order)
        compiled = _compile(module, example.permute(self._order), threads)
        self._queue = _queue(compiled, threads)

    def forward(self, items: Tensor) -> Tensor:
        """What the module gives for items (n, …)."""
        rows = items.permute(self._order).contiguous()  # a view, for most
        size = min(ROWS_AT_ONCE, -(-len(rows) // len(self._queue)))
        parts = [part.numpy() for part in rows.split(size)]
        found: list[Any] = [None] * len(parts)
        self._queue.set_callback(functools.partial(_keep, found))
        for place, part in enumerate(parts):
            self._queue.start_async({0: part}, place, share_inputs=True)
        self._queue.wait_all()
        return torch.cat([torch.from_numpy(part) for part in found])


def _keep(found: list[Any], request: Any, place: int) -> None:
    """Notes a copy of what a finished request computed."""
    found[place] = request.get_output_tensor().data.copy()


def _order_in_memory(items: Tensor) -> list[int]:
    """The order of axes in which a batch lies in memory: as it is, or channels last."""
    last = items.ndim == 4 and items.is_contiguous(memory_format=torch.channels_last)
    return [0, 2, 3, 1] if last and not items.is_contiguous() else [*range(items.ndim)]


class _Permuted(nn.Module):
    """The module of items whose axes are given in another order."""

    def __init__(self, module: nn.Module, order: list[int]) -> None:
        super().__init__()
        self.module = module
        self.back = [order.index(axis) for axis in range(len(order))]

    def forward(self, items: Tensor) -> Tensor:
        """What the module gives for items with their axes in its own order."""
        output: Tensor = self.module(items.permute(self.back))
        return output


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
        "PERFORMANCE_HINT": "THROUGHPUT",
        "NUM_STREAMS": threads,  # each computes a part of the rows of its own
        "INFERENCE_NUM_THREADS": threads,
        # pinned, the first streams of all processes of a machine share its first core
        "ENABLE_CPU_PINNING": False,
    }
    return openvino.Core().compile_model(graph, "CPU", exact)


def _queue(compiled: Any, threads: int) -> Any:
    from openvino import AsyncInferQueue

    return AsyncInferQueue(compiled, threads)


def _graph(module: nn.Module, example: Tensor) -> Any:
    """The module as OpenVINO's graph, for any number of rows.

    Through the frontend itself: ``openvino.convert_model`` reports its use to its
    makers over the network.
    """
    from openvino import PartialShape
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    frontend = FrontEndManager().load_by_framework("pytorch")
    # Our own comparison with torch is the check; the tracer's takes several seconds.
    traced = torch.jit.trace(module, (example[:TRACED_ROWS],), check_trace=False)
    decoder = TorchScriptPythonDecoder(traced)
    graph = frontend.convert(frontend.load(decoder))
    graph.reshape({graph.inputs[0]: PartialShape([-1, *example.shape[1:]])})
    return graph
