"""The demo's network: so small that a run takes seconds."""

from torch import nn


def one_hidden_layer(
    channels: int = 1, pixels: int = 64, hidden: int = 128
) -> nn.Module:
    """From grey images (n, channels, 8, 8) to a hidden layer (n, hidden).

    The embedding layer comes behind it, as behind every network that is given by its
    import path.
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * pixels, hidden), nn.ReLU())
