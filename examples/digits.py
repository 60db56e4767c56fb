"""Digits, one network, triplet loss: with and without gradient snapping.

    python examples/digits.py            # about a minute

Trains a small network on 500 of scikit-learn's digits twice per seed, once plain and
once with the snapping layer, fits a 16-bit product quantizer to each database, and
prints how well floats and codes rank, and how much the codes lose.

The learning rate of each side is the best one on a validation split, never on the
queries: snapped steps are shorter, so one rate for both would prove nothing.
"""

import argparse
import time
from typing import NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn

import gradsnap as gs

DIM, CODEBOOKS, WORDS = 32, 4, 16  # 16 bits a vector
STEPS, BATCH, WARMUP = 600, 96, 100
RATES = (0.005, 0.01, 0.02, 0.05)


class Split(NamedTuple):
    """Images (n, 64) and labels (n,) of one part of the data."""

    images: Tensor
    labels: Tensor


class Scores(NamedTuple):
    """What a trained network is worth; means over seeds when printed."""

    float_map: float
    code_map: float
    error: float


def splits(seed: int) -> tuple[Split, Split, Split]:
    """500 training images, 200 queries and the rest as the database."""
    data = load_digits()
    images = torch.from_numpy(data.data).float() / 16
    labels = torch.from_numpy(data.target).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    parts = order[:500], order[500:700], order[700:]
    train, queries, database = (Split(images[part], labels[part]) for part in parts)
    return train, queries, database


def small_network(seed: int) -> nn.Module:
    """Two layers from 64 pixels to the embedding, weights drawn from the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, DIM))


def new_quantizer() -> gs.ProductQuantizer:
    """16-bit codes."""
    return gs.ProductQuantizer(DIM, num_codebooks=CODEBOOKS, codebook_size=WORDS)


def train(
    data: Split, rule: gs.SnappingRule | None, rate: float, seed: int
) -> nn.Module:
    """The loop: batch, embed, snap, loss, backward, step, update."""
    network = small_network(seed)
    quantizer = new_quantizer()
    snap = gs.GradientSnapping(quantizer, neighbors=150, rule=rule)
    criterion = gs.TripletLoss(margin=1.0)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        batch = torch.randint(len(data.labels), (BATCH,), generator=generator)
        embeddings = network(data.images[batch])
        snapping = rule is not None and step >= WARMUP
        if snapping and step == WARMUP:
            quantizer.fit(network(data.images).detach())
        loss = criterion(
            snap(embeddings) if snapping else embeddings, data.labels[batch]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if snapping:
            quantizer.update(embeddings.detach())
    return network


@torch.no_grad()
def score(network: nn.Module, queries: Split, database: Split) -> Scores:
    """MAP over the whole database of floats and of codes, and what codes lose."""
    asked, stored = network(queries.images), network(database.images)
    quantizer = new_quantizer().fit(stored)
    spread = (stored - stored.mean(dim=0)).square().sum(dim=1).mean()
    distances = quantizer.distances(asked, quantizer.encode(stored))
    return Scores(
        ranked_map(torch.cdist(asked, stored), queries, database),
        ranked_map(distances, queries, database),
        quantizer.error(stored) / float(spread),
    )


def ranked_map(distances: Tensor, queries: Split, database: Split) -> float:
    """MAP of ranking the database by distances (q, n), ascending; ties by place."""
    order = distances.argsort(dim=1, stable=True)
    relevant = database.labels[order] == queries.labels[:, None]
    return float(gs.mean_average_precision(relevant, relevant.sum(dim=1)))


def best_rate(data: Split, rule: gs.SnappingRule | None, seed: int) -> float:
    """The learning rate whose codes rank best on a fifth of the training images."""
    cut = len(data.labels) // 5
    held = Split(data.images[:cut], data.labels[:cut])
    rest = Split(data.images[cut:], data.labels[cut:])
    found = {r: score(train(rest, rule, r, seed), held, rest).code_map for r in RATES}
    return max(found, key=lambda rate: found[rate])


def main() -> None:
    """Trains both ways over some seeds and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--strength", type=float, default=gs.SnappingRule().strength)
    args = parser.parse_args()
    torch.set_num_threads(1)  # so small a network gains nothing from more
    console = Console()
    table = Table(title=f"digits, {CODEBOOKS * 4}-bit codes, {args.seeds} seeds")
    for column in ("network", "rate", "float MAP", "code MAP", "relative error", "s"):
        table.add_column(column, justify="left" if column == "network" else "right")
    rules = {"plain": None, "snapping": gs.SnappingRule(args.strength)}
    for name, rule in rules.items():
        started = time.perf_counter()
        with console.status(f"training: {name}"):
            rate = best_rate(splits(0)[0], rule, seed=0)
            rows = []
            for seed in range(args.seeds):
                data, queries, database = splits(seed)
                rows.append(score(train(data, rule, rate, seed), queries, database))
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        took = f"{time.perf_counter() - started:.0f}"
        table.add_row(name, f"{rate}", *(f"{mean:.3f}" for mean in means), took)
    console.print(table)


if __name__ == "__main__":
    main()
