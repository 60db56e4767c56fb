"""Tables of pairs and triplets that tests share."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor


def write_table(path: Path, header: str, rows: Iterable[Sequence[object]]) -> Path:
    """A CSV file with a header such as ``a,b,similar``."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)
    return path


def random_pairs(labels: Tensor, count: int, seed: int = 0) -> list[list[int]]:
    """Random pairs of items (n,) and whether they share a label."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(len(labels), (count, 2), generator=generator)
    ends = ends[ends[:, 0] != ends[:, 1]]
    same = labels[ends[:, 0]] == labels[ends[:, 1]]
    return torch.cat([ends, same[:, None].long()], dim=1).tolist()


def random_triplets(labels: Tensor, count: int, seed: int = 0) -> list[list[int]]:
    """Random triplets of items (n,): the first two share a label, the last does not."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randint(len(labels), (20 * count, 3), generator=generator)
    a, b, c = labels[found].T
    fits = (a == b) & (a != c) & (found[:, 0] != found[:, 1])
    return found[fits][:count].tolist()
