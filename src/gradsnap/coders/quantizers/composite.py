"""Composite quantization: codewords overlap, but their cross term is constant."""

from typing import Unpack

import torch
from torch import Tensor

from gradsnap.coders.coder import Reduce
from gradsnap.coders.quantizers.codeword_tables import (
    codeword_offsets,
    pair_tables,
    unary_tables,
    word_norms,
)
from gradsnap.coders.quantizers.kmeans import accumulate, follow
from gradsnap.coders.quantizers.least_squares import code_counts, pair_counts
from gradsnap.coders.quantizers.local_search import Energy, local_search
from gradsnap.coders.quantizers.product import ProductQuantizer, check_blocks
from gradsnap.coders.quantizers.quantizer import chunks
from gradsnap.coders.quantizers.summed import BeamOptions, SummedQuantizer
from gradsnap.progress import track

LBFGS_STEPS = 10
TRAINING_ROUNDS = 2
TINY = 1e-30


class ConstantCrossEnergy(Energy):
    """Squared distance plus a penalty on a cross term that is not the constant.

    Args:
        unaries: ``unary_tables``, (n, M, K).
        pairs: ``pair_tables``, (M, M·K, K).
        constant: what the cross term should be.
        penalty: weight of the squared deviation.
    """

    def __init__(
        self, unaries: Tensor, pairs: Tensor, constant: Tensor, penalty: Tensor
    ) -> None:
        super().__init__(unaries, pairs)
        self.constant = constant
        self.penalty = penalty

    def scores(self, codes: Tensor, m: int) -> Tensor:
        """Energy of codes (n, M) for each choice of codeword m, up to a shift."""
        added = super().scores(codes, m)
        cross = added - self.unaries[:, m]
        rest = self.cross(codes) - cross.gather(1, codes[:, m, None])[:, 0]
        cross += (rest - self.constant)[:, None]
        return added.addcmul_(cross, cross * self.penalty)

    def total(self, codes: Tensor) -> Tensor:
        """Energy of codes (n, M): (n,)."""
        slack = self.cross(codes) - self.constant
        return super().total(codes) + self.penalty * slack * slack  # slack² overflows


class CompositeQuantizer(SummedQuantizer):
    """CQ (Zhang et al. 2014): additive codes whose cross term is the same for all.

    Minimizes ``‖x − x̂‖² + penalty · (cross − constant)²``, from a product quantizer's
    codebooks on, whose cross terms are zero. Search then needs no norm of the items:
    the tables' sums rank them, up to the slack that is left (``slack`` measures it).

    Args:
        dim: length of a vector.
        num_codebooks: codewords added up for one vector; at most ``dim``.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones.
        seed: of everything random.
        iterations: of codes and codebooks in ``fit``.
        strength: of the penalty, for vectors of unit variance.
        rounds: of local search in ``encode``.
        beam_size: partial codes kept where the search starts.
    """

    constant: Tensor
    penalty: Tensor

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        iterations: int = 20,
        strength: float = 10.0,
        rounds: int = 4,
        **beam: Unpack[BeamOptions],
    ) -> None:
        super().__init__(dim, num_codebooks, codebook_size, **beam)
        check_blocks(dim, num_codebooks)
        self.iterations = iterations
        self.strength = strength
        self.rounds = rounds
        self.register_buffer("constant", torch.zeros(()))
        self.register_buffer("penalty", torch.zeros(()))

    def slack(self, codes: Tensor) -> Tensor:
        """How far the cross terms of codes (n, M) are from the constant, (n,)."""
        codes = self._ready_codes(codes)
        return super()._cross_terms(codes) - self.constant

    def _learn(self, x: Tensor) -> None:
        variance = total_variance(len(x), x.sum(dim=0), x.square().sum())
        self._fit_scaled(x / variance.sqrt())
        self.codebooks.mul_(variance.sqrt())
        self.constant.mul_(variance)
        self.penalty.div_(variance)

    def _fit_scaled(self, x: Tensor) -> None:
        """``fit`` for rows of unit variance: L-BFGS stops by absolute tolerances."""
        product = ProductQuantizer(
            self.dim, self.num_codebooks, self.codebook_size, seed=self.seed
        ).to(x)
        product._learn(x)
        codes = product._encode(x)
        self.codebooks.copy_(spread_blocks(product))
        self.penalty.fill_(self.strength)
        for step in track(range(self.iterations), "fitting codebooks"):
            words = self._solve_words(x, codes)
            self.codebooks.copy_(words.view_as(self.codebooks))
            self.constant.copy_(super()._cross_terms(codes).mean())
            codes = self._search(x, codes, TRAINING_ROUNDS, self.seed + step)
        self.constant.copy_(super()._cross_terms(codes).mean())
        self.counts.copy_(code_counts(codes, self.codebook_size, x.dtype))

    def _solve_words(self, x: Tensor, codes: Tensor) -> Tensor:
        """All codewords (M·K, dim) after a few steps of L-BFGS, the codes fixed.

        Both terms of the objective need the Gram matrix of the codewords alone, not
        the reconstructions: a step costs the same whatever the number of rows.
        """
        with torch.inference_mode(False), torch.enable_grad():
            return self._lbfgs(x, codes)

    def _lbfgs(self, x: Tensor, codes: Tensor) -> Tensor:
        size, rows = self.codebook_size, len(x)
        meet = pair_counts(codes, size).to(x.dtype) / rows
        sums = [accumulate(x[None], column[None], size)[1][0] for column in codes.T]
        moments = torch.cat(sums) / rows  # (M·K, dim)
        index = codes + codeword_offsets(codes, size)
        words = self.codebooks.detach().flatten(0, 1).clone().requires_grad_()
        penalty = self.penalty.clone()  # autograd keeps no tensor of inference mode
        optimizer = torch.optim.LBFGS(
            [words], max_iter=LBFGS_STEPS, line_search_fn="strong_wolfe"
        )

        def objective() -> Tensor:
            optimizer.zero_grad()
            gram = words @ words.T
            error = (meet * gram).sum() - 2 * (moments * words).sum()
            cross = pairwise(gram, index)
            value = error + penalty * cross.var(correction=0)
            value.backward()
            return value

        optimizer.step(objective)
        return words.detach()

    def _encode(self, x: Tensor) -> Tensor:
        return self._search(x, super()._encode(x), self.rounds, self.seed)

    def _search(self, x: Tensor, codes: Tensor, rounds: int, seed: int) -> Tensor:
        pairs, norms = pair_tables(self.codebooks), word_norms(self.codebooks)
        parts = chunks(x, self.num_codebooks * self.codebook_size)
        done = []
        for part, start in zip(parts, codes.split(len(parts[0])), strict=True):
            unaries = unary_tables(part, self.codebooks, norms)
            energy = ConstantCrossEnergy(unaries, pairs, self.constant, self.penalty)
            done.append(local_search(energy, start, rounds, seed))
        return torch.cat(done)

    def _update(self, x: Tensor, reduce: Reduce) -> None:
        """A step down the same objective, codebook after codebook."""
        codes = self._encode(x)
        self._follow_level(x, codes, reduce)
        for m in range(self.num_codebooks):
            rest = self._decode(codes) - self.codebooks[m, codes[:, m]]  # (n, dim)
            curvature = self._curvature(rest, reduce)
            batch = self._downhill(x, codes, m, rest)
            reduce(batch)
            words, new = self.codebooks[m : m + 1], batch[..., 0]
            steps = torch.linalg.solve(curvature, batch[0, :, 1:].T).T
            sums = words * new[..., None] + steps
            follow(words, self.counts[m : m + 1], new, sums, self.decay)

    def _curvature(self, rest: Tensor, reduce: Reduce) -> Tensor:
        """Half the objective's second derivative in a codeword, (dim, dim).

        The penalty is stiff along the sum r of the other codewords (n, dim), so the
        gradient is divided by ``I + 4·penalty·E[r rᵀ]``: without, steps would have to
        be tiny in all directions.
        """
        moments = torch.cat([rest.T @ rest, rest.new_full((1, self.dim), len(rest))])
        reduce(moments)
        curvature = 4 * self.penalty * moments[:-1] / moments[-1:].clamp_min(1)
        curvature.diagonal().add_(1)
        return curvature

    def _downhill(self, x: Tensor, codes: Tensor, m: int, rest: Tensor) -> Tensor:
        """Sums over the rows of each codeword of codebook m, (1, K, 1 + dim).

        How many they are, and half the way down the gradient.
        """
        slack = super()._cross_terms(codes) - self.constant
        own = self.codebooks[m, codes[:, m]]
        down = x - rest - own - 2 * (self.penalty * slack)[:, None] * rest
        counts, sums = accumulate(down[None], codes[None, :, m], self.codebook_size)
        return torch.cat([counts[..., None], sums], dim=2)

    def _follow_level(self, x: Tensor, codes: Tensor, reduce: Reduce) -> None:
        """The constant follows the cross terms, the penalty the variance."""
        cross = super()._cross_terms(codes)
        sums = [torch.ones_like(cross).sum(), cross.sum(), x.square().sum()]
        batch = torch.cat([torch.stack(sums), x.sum(dim=0)])
        reduce(batch)
        rows = int(batch[0])
        if rows > 1:
            self.constant.lerp_(batch[1] / rows, 1 - self.decay)
            variance = total_variance(rows, batch[3:], batch[2])
            earlier = self.strength / self.penalty
            self.penalty.copy_(self.strength / earlier.lerp(variance, 1 - self.decay))

    def _cross_terms(self, codes: Tensor) -> Tensor:
        """The constant, for every code: nothing has to be stored beside it."""
        return self.constant.expand(len(codes))


def total_variance(rows: int, total: Tensor, squares: Tensor) -> Tensor:
    """Variance summed over dimensions, from the sum (dim,) and the sum of squares.

    Kept above a millionth of the mean square, for rows that are all equal.
    """
    square = squares / rows
    variance = square - (total / rows).square().sum()
    return torch.maximum(variance, square * 1e-6).clamp_min(TINY)


def spread_blocks(product: ProductQuantizer) -> Tensor:
    """A product quantizer's codebooks over all dimensions, (M, K, dim)."""
    size = product.codebook_size
    blocks = torch.arange(product.dim).tensor_split(product.num_codebooks)
    full = product.codebooks.new_zeros(product.num_codebooks, size, product.dim)
    for m, block in enumerate(blocks):
        full[m, :, block] = product.codebooks[m, :, : len(block)]
    return full


def pairwise(gram: Tensor, index: Tensor) -> Tensor:
    """Cross terms (n,) from the codewords' Gram matrix and their places (n, M)."""
    total = gram.new_zeros(len(index))
    for i in range(1, index.shape[1]):
        for j in range(i):
            total = total + 2 * gram[index[:, i], index[:, j]]
    return total
