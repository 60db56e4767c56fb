"""A network compiled for fast embedding on a CPU, by OpenVINO (extra ``openvino``)."""

import typing
import warnings

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError


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
        self._compiled = _compiled(module, example, threads or torch.get_num_threads())

    def forward(self, items: Tensor) -> Tensor:
        """What the module gives for items (n, …)."""
        output = self._compiled(items.contiguous().numpy())[0]
        return torch.from_numpy(output)


def _compiled(module: nn.Module, example: Tensor, threads: int) -> typing.Any:
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


def _graph(module: nn.Module, example: Tensor) -> typing.Any:
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
