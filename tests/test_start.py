"""The first weights of an embedding layer over ready vectors."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import nn

from gradsnap.networks import start_principal
from gradsnap.training import run_training
from gradsnap.training.start import VARIANCE
from tests.training_runs import clusters, config_for


def rows(count: int = 200, dim: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    scales = torch.linspace(3, 0.5, dim)
    return 5 + scales * torch.randn(count, dim, generator=generator)


def test_the_axes_are_those_of_scikit_learn_up_to_scale_and_sign() -> None:
    x, feat = rows(), nn.Linear(12, 4)
    start_principal(feat, x, VARIANCE)
    ours = feat(x).detach().numpy()
    theirs = PCA(4).fit_transform(x.numpy())
    ratio = np.linalg.norm(ours) / np.linalg.norm(theirs)
    np.testing.assert_allclose(
        np.abs(ours), ratio * np.abs(theirs), rtol=1e-3, atol=1e-3
    )


def test_two_embeddings_are_the_same_distance_apart_whatever_the_scale() -> None:
    for scale in (1e-3, 1.0, 1e3):
        x, feat = scale * rows(), nn.Linear(12, 4)
        start_principal(feat, x, VARIANCE)
        y = feat(x).detach()
        mean = torch.cdist(y, y).square().mean()  # an item and itself count 0
        assert float(mean) == pytest.approx(2 * VARIANCE, rel=1e-3)


def first_weights(tmp_path: Path, *overrides: str) -> torch.Tensor:
    source = tmp_path / "v.npz"
    if not source.exists():
        clusters(source, dim=20)
    still = ("optimizer.rate=0.0", "optimizer.weight_decay=0.0", "run.steps=1")
    out = tmp_path / str(len(list(tmp_path.iterdir())))
    model = run_training(config_for(source, *still, *overrides), out)
    assert model is not None
    weights: torch.Tensor = model.network.state_dict()["feat.weight"]
    return weights


def test_vectors_start_from_axes_unless_told_otherwise(tmp_path: Path) -> None:
    chosen = first_weights(tmp_path)
    product = chosen @ chosen.T
    off = product - product.diagonal().diag()
    assert float(off.abs().max()) < 1e-4 * float(product.diagonal().max())
    assert torch.equal(chosen, first_weights(tmp_path, "network.start=axes"))
    random = first_weights(tmp_path, "network.start=random")
    assert not torch.allclose(chosen, random)


def test_a_hidden_layer_starts_at_random(tmp_path: Path) -> None:
    hidden = "network.options.hidden=[16]"
    chosen = first_weights(tmp_path, hidden)
    assert torch.equal(chosen, first_weights(tmp_path, hidden, "network.start=random"))


def test_more_dimensions_than_axes_start_at_random(tmp_path: Path) -> None:
    wide = "network.dim=24"
    chosen = first_weights(tmp_path, wide)
    assert torch.equal(chosen, first_weights(tmp_path, wide, "network.start=random"))
