"""An adapter on embeddings you already have: vectors in a file, codes out.

    python examples/adapter.py           # a few seconds

Your embeddings stay as they are; a linear head on top of them is trained so that its
output quantizes well, and the model folder it leaves is opened with ``gradsnap.load``.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

import gradsnap as gs
from gradsnap.training import make_config, run_training


def precomputed(path: Path) -> Path:
    """Stands for your file: vectors (n, dim) float32 and labels (n,)."""
    pixels, digits = load_digits(return_X_y=True)
    mix = np.random.default_rng(0).normal(size=(64, 128)) / 8
    vectors = np.maximum(pixels / 16 @ mix, 0).astype(np.float32)
    np.savez(path, vectors=vectors, labels=digits)
    return path


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = precomputed(folder / "vectors.npz")
        config = make_config(
            {
                "data": {"source": str(source)},
                "network": {"dim": 32, "options": {"normalization": "standard"}},
                "quantizer": {"bits": 16, "codebook_size": 16},
                "run": {"steps": 200, "batch_size": 96},
            }
        )
        run_training(config, folder / "model")

        model = gs.load(folder / "model")
        for figure, value in model.card["figures"].items():
            print(f"{figure}: {value:.3f}")
        vectors = torch.from_numpy(np.load(source)["vectors"])
        index = gs.ExhaustiveIndex(model.coder).add(model.embed(vectors))
        ids, _ = index.search(model.embed(vectors[:3]), k=5)
        print(f"nearest of the first three: {ids.tolist()}")


if __name__ == "__main__":
    main()
