"""Several processes that train as one with the same global batch."""

import atexit
import contextlib
import gc
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from gradsnap.coders.coder import Reduce
from gradsnap.training.meeting import fresh_store

Value = TypeVar("Value")

TIMEOUT = timedelta(minutes=30)
"""How long a process waits for one that has stopped answering."""


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is; one alone needs no process group."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this one writes files and talks to people."""
        return self.rank == 0

    @property
    def reduce(self) -> Reduce | None:
        """Sums a tensor over all processes in place."""
        return dist.all_reduce if self.world > 1 else None

    def wait(self) -> None:
        """Returns when all processes have come here."""
        if self.world > 1:
            dist.barrier()

    def share_from_first(self, module: nn.Module) -> None:
        """Gives every process the first one's parameters and buffers."""
        if self.world > 1:
            for tensor in module.state_dict().values():
                dist.broadcast(tensor, src=0)

    def exchanged(self, value: Value) -> list[Value]:
        """The values of all processes, in their order; small ones."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def filled(self, rows: Tensor, total: int, mine: slice | Tensor) -> Tensor:
        """The rows (total, …) of all processes, where each knows its own (m, …).

        Args:
            rows: of this process.
            total: of all processes.
            mine: where these rows lie in all, a slice or bool (total,).
        """
        every = rows.new_zeros(total, *rows.shape[1:])
        every[mine] = rows
        if self.world > 1:
            reducible = every.cuda() if dist.get_backend() == "nccl" else every
            dist.all_reduce(reducible)
            every = reducible.to(rows.device)
        return every

    def gathered(self, rows: Tensor, total: int, mine: slice) -> Tensor:
        """The rows (total, dim) of all processes, of which this one has ``mine``.

        Every process computes the same loss of all rows, and the gradient of its own
        share comes back, multiplied so that the mean over processes, as DDP takes it,
        is a sum over all rows.
        """
        if self.world == 1:
            return rows
        all_rows: Tensor = _Gather.apply(rows, total, mine, self.world)  # type: ignore[no-untyped-call]
        return all_rows

    def parallel(self, module: nn.Module, device: torch.device) -> nn.Module:
        """The module with its gradients averaged over processes, by DDP."""
        trains = any(one.requires_grad for one in module.parameters())
        if self.world == 1 or not trains:  # DDP refuses a module without gradients
            return module
        ids = [device] if device.type == "cuda" else None
        with warnings.catch_warnings():
            # its successor is not in the versions of PyTorch before 2.13
            warnings.filterwarnings("ignore", message="`broadcast_buffers` is depre")
            # DDP would lay out gradients anew after the first step, and sums over three
            # processes and more depend on the layout: a restarted run would differ.
            return DistributedDataParallel(
                module,
                device_ids=ids,
                broadcast_buffers=False,
                find_unused_parameters=True,
            )

    def average_gradients(self, tensors: Iterable[Tensor]) -> None:
        """What DDP does, for tensors that are in no module of its."""
        if self.world > 1:
            for gradient in (one.grad for one in tensors if one.grad is not None):
                dist.all_reduce(gradient)
                gradient /= self.world


@contextlib.contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """The processes ``torchrun`` started, joined; this one alone otherwise.

    Inside of itself it gives those that are joined already.
    """
    if dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size())
        return
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Processes()
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "nccl" if device.type == "cuda" else "gloo"
    shared, rank, world = next(rendezvous("env://", timeout=TIMEOUT))
    own = fresh_store(shared, rank, world, TIMEOUT)
    dist.init_process_group(
        backend, store=own, rank=rank, world_size=world, timeout=TIMEOUT
    )
    # What DDP leaves in cycles holds on to gloo's threads, which abort the process if
    # they want Python while it ends: so cycles go while it is still whole.
    atexit.register(gc.collect)
    try:
        yield Processes(rank, world)
    finally:
        dist.destroy_process_group()


def share(count: int, rank: int, world: int) -> slice:
    """The rows of ``count`` that belong to one of ``world`` processes.

    >>> [share(10, rank, 3) for rank in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(count * rank // world, count * (rank + 1) // world)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, total: int, mine: slice, world: int) -> Tensor:
        ctx.mine, ctx.world = mine, world
        all_rows = rows.new_zeros(total, *rows.shape[1:])
        all_rows[mine] = rows
        dist.all_reduce(all_rows)
        return all_rows

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return gradient[ctx.mine] * ctx.world, None, None, None
