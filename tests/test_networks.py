"""Networks: shapes, and the names torchvision's checkpoints use."""

import os
from pathlib import Path

import pytest
import torch

from gradsnap.networks import AlexNet


@pytest.mark.parametrize("side", [64, 96])
def test_alexnet_embeds_any_side_from_64(side: int) -> None:
    network = AlexNet(dim=24).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, 3, side, side)).shape == (2, 24)


def test_alexnet_takes_pretrained_convolutions() -> None:
    path = Path(os.environ.get("GRADSNAP_DATA", "")) / "alexnet_features.pth"
    if not path.is_file():
        pytest.skip("GRADSNAP_DATA names no folder with alexnet_features.pth")
    weights = torch.load(path, weights_only=True)
    missing, unexpected = AlexNet().load_state_dict(weights, strict=False)
    assert unexpected == []
    assert not any(name.startswith("features.") for name in missing)
