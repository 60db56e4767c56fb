"""The compiled kernel, where it can be used: on CPUs, with the extra ``fast``."""

import functools
import importlib
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import torch
from torch import Tensor


def kernel_for(tensor: Tensor) -> ModuleType | None:
    """``gradsnap.evaluation.kernel`` where it can work on the tensor, or None."""
    return _kernel() if tensor.device.type == "cpu" else None


@functools.cache
def _kernel() -> ModuleType | None:
    if importlib.util.find_spec("numba") is None:
        return None
    return importlib.import_module("gradsnap.evaluation.kernel")


def in_threads(work: Callable[..., None], *tensors: Tensor) -> None:
    """Calls ``work`` on parts of the rows of all tensors, one for each torch thread.

    The kernel runs without Python's lock, and writes into the last tensor's rows.
    """
    parts = max(1, min(torch.get_num_threads(), len(tensors[0])))
    jobs = zip(*(tensor.tensor_split(parts) for tensor in tensors), strict=True)
    if parts == 1:
        work(*tensors)
        return
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(lambda job: work(*job), jobs))
