"""Two real processes: the layer under DDP, and codebooks that stay equal."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import gradsnap as gs
from gradsnap.coders.quantizers import QUANTIZERS

DIM, ROWS = 6, 32


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2 * ROWS, DIM, generator=generator), torch.arange(2 * ROWS) % 4


def model() -> nn.Sequential:
    x, _ = data()
    linear = nn.Linear(DIM, DIM, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.eye(DIM))
    quantizer = gs.ProductQuantizer(DIM, num_codebooks=2, codebook_size=8).fit(x)
    return nn.Sequential(linear, gs.GradientSnapping(quantizer, 20))


def gradient(network: nn.Module, weights: nn.Parameter, rank: int) -> Tensor:
    x, _ = data()
    mine = slice(rank * ROWS, (rank + 1) * ROWS)
    network(x[mine]).square().sum(dim=1).mean().backward()
    assert weights.grad is not None
    return weights.grad


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    plain = model()
    weights = plain[0].weight
    assert isinstance(weights, nn.Parameter)
    found = {"gradient": gradient(DistributedDataParallel(plain), weights, rank)}
    x, _ = data()
    for kind, known in QUANTIZERS.items():
        quantizer = known(DIM, 2, 8).fit(x)
        for step in range(3):
            moved = x[rank * ROWS : (rank + 1) * ROWS] * (1 + 0.1 * step)
            quantizer.update(moved, reduce=dist.all_reduce)
        found |= {f"{kind}.{k}": v for k, v in quantizer.state_dict().items()}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.usefixtures("all_fits")
def test_two_processes(tmp_path: Path) -> None:
    spawn(work, args=(str(tmp_path),), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert len(first) > len(QUANTIZERS)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
    alone = []
    for rank in (0, 1):
        network = model()
        weights = network[0].weight
        assert isinstance(weights, nn.Parameter)
        alone.append(gradient(network, weights, rank))
    torch.testing.assert_close(first["gradient"], (alone[0] + alone[1]) / 2)

    x, _ = data()
    for kind, known in QUANTIZERS.items():
        quantizer = known(DIM, 2, 8).fit(x)
        for step in range(3):
            quantizer.update(x * (1 + 0.1 * step))
        for name, value in quantizer.state_dict().items():
            torch.testing.assert_close(first[f"{kind}.{name}"], value, msg=name)
