"""A network compiled by OpenVINO, for CPUs (extra ``openvino``)."""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError

TRACED_ROWS = 2

ROWS_AT_ONCE = 16
"""Items that one thread computes at once; more would not stay in its cache."""


class OpenVinoNetwork(nn.Module):
    """The same outputs as the module's, to rounding, several times as fast on a CPU.

    A copy of the weights as they are now; it cannot be trained. Takes the place of the
    network in ``gradsnap.embed``.

    Args:
        module: a network or a part of one; put into evaluation mode while it is read.
        example: a batch (n, …) it takes; later batches may have any number of rows.
        threads: how many it may use; as many as torch does if not given.
        brief: computes in bfloat16, which is nearly twice as fast and less exact.

    Raises:
        InputError: OpenVINO is not installed, or cannot read the module, or the
            processor has no bfloat16.
    """

    def __init__(
        self,
        module: nn.Module,
        example: Tensor,
        threads: int | None = None,
        *,
        brief: bool = False,
    ) -> None:
        super().__init__()
        preprocess = getattr(module, "preprocess", None)
        if isinstance(preprocess, nn.Module):
            self.preprocess = preprocess
        threads = threads or torch.get_num_threads()
        self._order = _order_in_memory(example)
        if self._order != sorted(self._order):
            module = _Permuted(module, self._order)
        compiled = _compile(module, example.permute(self._order), threads, brief)
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


def _compile(module: nn.Module, example: Tensor, threads: int, brief: bool) -> Any:
    try:
        import openvino
    except ImportError as error:
        raise InputError(
            "OpenVINO is not installed: pip install 'gradsnap[openvino]'"
        ) from error
    core = openvino.Core()
    able = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if brief and "BF16" not in able:
        raise InputError(
            "this processor does not compute in bfloat16: choose the engine openvino"
        )
    from gradsnap.inference.embedding import evaluating

    try:
        with evaluating(module), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tracer, about constant shapes
            graph = _graph(module, example)
    except Exception as error:  # whatever the reader of a foreign module raises
        raise InputError(
            f"OpenVINO cannot read {type(module).__name__}: {error}"
        ) from error
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if brief else "f32",
        "PERFORMANCE_HINT": "THROUGHPUT",
        "NUM_STREAMS": threads,  # each computes a part of the rows of its own
        "INFERENCE_NUM_THREADS": threads,
        # pinned, the first streams of all processes of a machine share its first core
        "ENABLE_CPU_PINNING": False,
    }
    return core.compile_model(graph, "CPU", settings)


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
