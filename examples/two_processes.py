"""Two processes: gradients averaged by DDP, codebooks equal to the bit on both.

    python examples/two_processes.py

For a whole run nothing has to be written:
``torchrun --nproc-per-node 2 -m gradsnap train photos/ --out model``.
"""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import gradsnap as gs

PROCESSES = 2


def work(rank: int, store: str) -> None:
    """One process: its own half of every batch."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same first weights everywhere
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=PROCESSES)
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels).float() / 16, torch.tensor(digits)
    network = DistributedDataParallel(nn.Linear(64, 32))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    criterion = gs.TripletLoss(margin=1.0)
    quantizer = gs.ProductQuantizer(dim=32, num_codebooks=4, codebook_size=16)
    quantizer.fit(network(images).detach())  # the same rows, the same codebooks
    snap = gs.GradientSnapping(quantizer, neighbors=150)

    for _ in range(30):
        mine = torch.randperm(len(images))[:128].chunk(PROCESSES)[rank]
        embeddings = network(images[mine])
        loss = criterion(snap(embeddings), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        quantizer.update(embeddings.detach(), reduce=dist.all_reduce)

    first = quantizer.codebooks.clone()
    dist.broadcast(first, src=0)
    if rank == 1:
        print(f"codebooks equal: {torch.equal(first, quantizer.codebooks)}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = (Path(folder) / "store").as_uri()
        spawn(work, args=(store,), nprocs=PROCESSES)


if __name__ == "__main__":
    main()
