"""Optimized product quantization: a rotation, then a product quantizer."""

from typing import Unpack

import torch
from torch import Tensor

from gradsnap.coders.coder import Reduce
from gradsnap.coders.quantizers.block_tables import Blocks
from gradsnap.coders.quantizers.kmeans import kmeans
from gradsnap.coders.quantizers.product import ProductQuantizer
from gradsnap.coders.quantizers.quantizer import Candidates, Common, Quantizer
from gradsnap.coders.rotations import identity, procrustes
from gradsnap.coders.tables import Tables
from gradsnap.progress import track

TRIAL_STEPS = 5
"""Steps from each start before the better one goes on."""


class OptimizedProductQuantizer(Quantizer):
    """OPQ (Ge et al. 2013): the rotation under which a product quantizer errs least.

    ``fit`` starts from the dimensions as they come, or from principal directions dealt
    out so that all blocks get the same product of variances, whichever errs less after
    a few steps; then it alternates k-means and an orthogonal Procrustes step.

    ``update`` follows with the same two steps: a product quantizer's update in the
    rotated space, and every ``rotate_every`` updates a rotation from decayed statistics
    of embeddings against reconstructions (dim x dim numbers, which unlike a reservoir
    of rows can be summed over processes).

    Args:
        dim: length of a vector.
        num_codebooks: number of blocks; at most ``dim``.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones.
        seed: of everything random in ``fit``.
        iterations: of codebooks and rotation in ``fit``.
        rotate_every: updates between two changes of the rotation.
    """

    statistics = frozenset(
        {"fitted", "moments", "updates"}
        | {f"inner.{name}" for name in ProductQuantizer.statistics}
    )

    rotation: Tensor
    moments: Tensor
    updates: Tensor

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        iterations: int = 50,
        rotate_every: int = 50,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(dim, num_codebooks, codebook_size, **common)
        self.iterations = iterations
        self.rotate_every = rotate_every
        self.inner = ProductQuantizer(dim, num_codebooks, codebook_size, **common)
        self.register_buffer("rotation", identity(dim))
        self.register_buffer("moments", torch.zeros(dim, dim))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @property
    def codebooks(self) -> Tensor:  # type: ignore[override]
        """Codebooks of the rotated blocks, (num_codebooks, codebook_size, width)."""
        return self.inner.codebooks

    @property
    def counts(self) -> Tensor:  # type: ignore[override]
        """Decayed weights of the codewords, (num_codebooks, codebook_size)."""
        return self.inner.counts

    def _learn(self, x: Tensor) -> None:
        starts = (
            torch.eye(self.dim, dtype=x.dtype, device=x.device),
            balanced_directions(x, self.num_codebooks),
        )
        tried = [self._alternate(x, start, TRIAL_STEPS) for start in starts]
        _, rotation, codebooks = min(tried, key=lambda result: result[0])
        self._alternate(x, rotation, self.iterations, codebooks)
        self.inner.refine(x @ self.rotation)
        self.moments.zero_()
        self.updates.zero_()

    def _alternate(
        self, x: Tensor, rotation: Tensor, steps: int, codebooks: Tensor | None = None
    ) -> tuple[float, Tensor, Tensor]:
        """Codebooks for the rotation, then the rotation for the codebooks.

        Returns:
            The last error, and copies of the last rotation and codebooks.
        """
        error = float("inf")
        for _ in track(range(steps), "fitting a rotation"):
            rotated = x @ rotation
            codebooks, _ = kmeans(
                self.inner.blocks(rotated),
                self.codebook_size,
                generator=self._generator(),
                iterations=10 if codebooks is None else 2,
                start=codebooks,
            )
            self.inner.codebooks.copy_(codebooks)
            reconstruction = self.inner._decode(self.inner._encode(rotated))
            error = float((rotated - reconstruction).square().sum(dim=1).mean())
            rotation = procrustes(x.T @ reconstruction)
        self.rotation.copy_(rotation)
        return error, rotation, self.inner.codebooks.clone()

    def _encode(self, x: Tensor) -> Tensor:
        return self.inner._encode(x @ self.rotation)

    def _decode(self, codes: Tensor) -> Tensor:
        return self.inner._decode(codes) @ self.rotation.T

    def _mix(self, weights: Tensor) -> Tensor:
        return self.inner._mix(weights) @ self.rotation.T

    def _update(self, x: Tensor, reduce: Reduce) -> None:
        rotated = x @ self.rotation
        batch = x.T @ self.inner._decode(self.inner._encode(rotated))
        self.inner._update(rotated, reduce)
        reduce(batch)
        self.moments.mul_(self.decay).add_(batch)
        self.updates += 1
        if int(self.updates) % self.rotate_every == 0:
            self.rotation.copy_(procrustes(self.moments))

    def _candidates(self, x: Tensor, k: int) -> Candidates:
        return self.inner._candidates(x @ self.rotation, k)

    def _tables(self, queries: Tensor) -> Tables:
        return self.inner._tables(queries @ self.rotation)

    @property
    def squared_blocks(self) -> bool:
        """Whether table entries are squared distances of blocks: they are."""
        return True

    def _in_blocks(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner._in_blocks(x @ self.rotation)

    def _unrotated(self, x: Tensor) -> Blocks:
        if self.dim % self.num_codebooks:  # blocks are padded after they are rotated
            return Blocks(*self._in_blocks(x))
        # What the properties give, after many questions that take far longer.
        codebooks = self._modules["inner"]._buffers["codebooks"]  # type: ignore[union-attr]
        return Blocks(x, codebooks, self._buffers["rotation"])  # type: ignore[arg-type]

    def _inner_products(self, x: Tensor) -> Tensor:
        return self.inner._inner_products(x @ self.rotation)


def balanced_directions(x: Tensor, num_blocks: int) -> Tensor:
    """Principal directions of x (n, dim) dealt to blocks of like variance product.

    Returns:
        Orthogonal (dim, dim); its columns are the directions, block after block.
    """
    dim = x.shape[1]
    centred = x - x.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    logs = values.clamp_min(float(values[-1]) * 1e-10 + 1e-30).log().flip(0)
    weights = (logs - logs.min() + 1).tolist()  # positive, or a block fills up first
    room = [len(part) for part in torch.arange(dim).tensor_split(num_blocks)]
    loads = [0.0] * num_blocks
    dealt: list[list[int]] = [[] for _ in range(num_blocks)]
    for direction, weight in enumerate(weights):
        open_blocks = [b for b in range(num_blocks) if len(dealt[b]) < room[b]]
        block = min(open_blocks, key=lambda b: loads[b])
        dealt[block].append(direction)
        loads[block] += weight
    columns = [direction for block in dealt for direction in block]
    directions: Tensor = vectors.flip(1)[:, columns]
    return directions
