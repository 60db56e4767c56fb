"""Encoders as ONNX files: images or embeddings in, codes out."""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gradsnap.coders.coder import Coder
from gradsnap.errors import InputError
from gradsnap.export.encoders import encoder_of
from gradsnap.files import replacing

INPUT, OUTPUT = "input", "codes"
OPSET = 18


def write_onnx(
    coder: Coder,
    path: str | os.PathLike[str],
    network: nn.Module | None = None,
    example: Tensor | None = None,
) -> None:
    """Writes an encoder whose codes equal ``coder.encode``, for any batch size.

    The graph has one input, ``input`` (float32), and one output, ``codes`` (int64,
    (n, num_codebooks)).

    Args:
        coder: fitted; a ``ProductQuantizer`` or ``OptimizedProductQuantizer``, a
            ``ResidualQuantizer`` (its beam search is unrolled), or a hasher by
            hyperplanes or signs.
        path: of the file.
        network: what makes embeddings of its input, in evaluation mode; none where the
            input is the embedding.
        example: an input of the network, (n, …), n at least 2.

    Raises:
        InputError: the coder's codes cannot be written as a graph, or an example is
            missing, or the extra ``onnx`` is not installed.
    """
    _require_onnx()
    coder._require_fitted()
    if network is not None and (example is None or len(example) < 2):
        raise InputError("a network needs an example of its input, at least two rows")
    given = torch.zeros(2, coder.dim) if example is None else example
    module = _Whole(network, encoder_of(coder)).eval()
    with replacing(path) as temporary, torch.no_grad(), _quiet():
        program: Any = torch.onnx.export(
            module,
            (given,),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("rows", min=1)},),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        program.save(os.fspath(temporary), external_data=False)


class _Whole(nn.Module):
    """The network, if there is one, then the encoder."""

    def __init__(self, network: nn.Module | None, encoder: nn.Module) -> None:
        super().__init__()
        self.network = nn.Identity() if network is None else network
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        """Codes (n, M) of inputs (n, …)."""
        codes: Tensor = self.encoder(self.network(x).float())
        return codes


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter's own deprecations and remarks are not the user's."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _require_onnx() -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError("ONNX files need the extra: install gradsnap[onnx]") from error
