"""Whether the compiled kernel can be used: on CPUs, with the extra ``fast``."""

import functools
import importlib
import importlib.util
from types import ModuleType

from torch import Tensor


def kernel_for(tensor: Tensor) -> ModuleType | None:
    """``gradsnap.evaluation.kernel`` where it can work on the tensor, or None."""
    return _kernel() if tensor.device.type == "cpu" else None


@functools.cache
def _kernel() -> ModuleType | None:
    if importlib.util.find_spec("numba") is None:
        return None
    return importlib.import_module("gradsnap.evaluation.kernel")
