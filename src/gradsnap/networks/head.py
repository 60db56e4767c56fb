"""An adapter on ready vectors: linear, or with hidden layers."""

from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.networks.network import Network, embedding_layer
from gradsnap.networks.normalization import build_normalization


class Head(Network):
    """A linear layer or a small MLP over vectors made before, such as embeddings.

    Trains in seconds on a CPU: the trunk that made the vectors does not run again.

    Args:
        input_dim: length of the vectors.
        dim: length of the embedding.
        hidden: sizes of hidden layers; none makes the head linear.
        normalization: of the vectors: "none", "length" (each row to length 1), "scale"
            (all rows by one number, to a mean length of 1) or "standard" (each
            dimension to mean 0 and variance 1).
        dropout: share of each hidden layer's outputs that is dropped in training.

    Example:
        >>> import torch
        >>> head = Head(input_dim=20, dim=8, hidden=(32,))
        >>> tuple(head(torch.zeros(5, 20)).shape)
        (5, 8)
    """

    def __init__(
        self,
        input_dim: int,
        dim: int = 64,
        hidden: tuple[int, ...] = (),
        normalization: str = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.dim = dim
        self.preprocess = nn.Identity()
        self.normalization = build_normalization(normalization, input_dim)
        sizes = (input_dim, *hidden)
        self.layers = nn.Sequential()
        for before, after in zip(sizes, hidden, strict=False):
            layers = nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)
            self.layers.append(nn.Sequential(*layers))
        self.feat = embedding_layer(sizes[-1], dim)

    def trunk(self, vectors: Tensor) -> Tensor:
        """The last hidden layer of vectors (n, input_dim)."""
        if vectors.ndim != 2 or vectors.shape[1] != self.input_dim:
            raise InputError(
                f"expected vectors of shape (n, {self.input_dim}), "
                f"got {tuple(vectors.shape)}"
            )
        output: Tensor = self.layers(self.normalization(vectors))
        return output

    def blocks(self) -> list[nn.Module]:
        """The hidden layers."""
        return list(self.layers)
