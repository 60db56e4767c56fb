"""Vectors you have, and pairs you know of: no classes anywhere.

    python examples/pairs.py           # a few seconds

The table says of some pairs of rows whether they are alike. A linear head is trained so
that alike rows get like codes, and judged by pairs of rows it has never seen.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from gradsnap.training import make_config, run_training


def write_data(folder: Path) -> None:
    """Stands for your files: vectors (n, dim), and what people said of pairs."""
    pixels, digits = load_digits(return_X_y=True)
    np.save(folder / "vectors.npy", (pixels / 16).astype(np.float32))
    drawn = np.random.default_rng(0).integers(len(pixels), size=(20_000, 2))
    with (folder / "pairs.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["a", "b", "similar"])
        for a, b in drawn.tolist():
            if a != b:
                table.writerow([a, b, int(digits[a] == digits[b])])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        config = make_config(
            {
                "data": {
                    "source": str(folder / "vectors.npy"),
                    "pairs": str(folder / "pairs.csv"),
                },
                "network": {"dim": 32},
                "loss": {"name": "supcon"},
                "coder": {"bits": 16, "codebook_size": 16},
                "run": {"steps": 100},
            }
        )
        model = run_training(config, folder / "model")
        if model is None:
            return  # not the first of several processes
        for what, pairs in model.card["facts"].items():
            print(f"{what}: {pairs}")
        for figure, value in model.card["figures"].items():
            print(f"{figure}: {value:.3f}")


if __name__ == "__main__":
    main()
