"""A network without convolutions, for images so small that a run takes seconds."""

from itertools import pairwise

from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.networks.network import Network, embedding_layer
from gradsnap.networks.preprocessing import Preprocess, check_side


class MLP(Network):
    """Hidden layers over the pixels of small images, such as the digits of the demo.

    Args:
        dim: length of the embedding.
        channels: of the images: 1 for grey, 3 for colour.
        side: pixels of a side of preprocessed images; their values are from 0 to 1.
        hidden: sizes of the hidden layers; none makes the network linear.

    Example:
        >>> import torch
        >>> network = MLP(dim=16, channels=1, side=8, hidden=(32,))
        >>> tuple(network(torch.zeros(5, 1, 8, 8)).shape)
        (5, 16)
    """

    def __init__(
        self,
        dim: int = 64,
        channels: int = 1,
        side: int = 28,
        hidden: tuple[int, ...] = (128,),
    ) -> None:
        super().__init__()
        check_side(side, 1, "MLP")
        self.dim = dim
        self.preprocess = Preprocess((0.0,) * channels, (1.0,) * channels, side)
        sizes = (channels * side * side, *hidden)
        self.layers = nn.Sequential()
        for before, after in pairwise(sizes):
            self.layers.append(nn.Sequential(nn.Linear(before, after), nn.ReLU()))
        self.feat = embedding_layer(sizes[-1], dim)
        self.input_dim = sizes[0]

    def trunk(self, images: Tensor) -> Tensor:
        """The last hidden layer of images (n, channels, side, side)."""
        pixels = images.flatten(1)  # (n, channels · side · side)
        if pixels.shape[1] != self.input_dim:
            raise InputError(
                f"MLP takes images of {self.input_dim} pixels in all their channels, "
                f"got {tuple(images.shape)}"
            )
        output: Tensor = self.layers(pixels)
        return output

    def blocks(self) -> list[nn.Module]:
        """The hidden layers."""
        return list(self.layers)
