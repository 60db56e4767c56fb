"""The gradient snapping layer.

Forward, the layer does nothing. Backward, it turns the gradient of each row toward a
nearby codeword, so that the step the loss asks for is also a step that quantizes well.

With g = ∂E/∂y, descent y ← y − ηΔy and the nearest codewords c₁…c_T of y:

    u_c = (y − c)/‖y − c‖        w_c = exp(−‖y − c‖²/σ²),  σ = mean distance to c₁…c_T
    c*  = argmax_c w_c⟨g, u_c⟩
    Δy  = λ(1 − cos²θ) g + w_c*⟨g, u_c*⟩ u_c*    if ⟨g, u_c*⟩ > 0,  cosθ = ⟨g, u_c*⟩/‖g‖
    Δy  = λ g                                    otherwise: snapping is rejected

Nothing of size rows × T × dim is ever held: distances and ⟨g, c⟩ are sums of table
entries, and only the one chosen codeword is decoded.
"""

import dataclasses
import itertools
from typing import Any, ClassVar, Literal, NamedTuple, cast
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from gradsnap.coders.coder import full_precision
from gradsnap.coders.quantizers import ProductQuantizer, Quantizer
from gradsnap.coders.tables import sums_of_own
from gradsnap.errors import InputError, NotFittedError
from gradsnap.layers.fused import can_fuse, fused
from gradsnap.layers.rules import Rule, SnappingRule, length, positive


class Snapped(NamedTuple):
    """What the last backward did to each row; detached, ready to log."""

    conformity: Tensor
    """Cosine between the gradient and y − c*, (n,); 1 is full agreement."""
    distance: Tensor
    """Distance to the chosen codeword, (n,)."""
    accepted: Tensor
    """Whether the row was snapped, (n,), bool."""


class GradientSnapping(nn.Module):
    """Identity forward; backward, each row's gradient is snapped by the rule.

    After each backward ``last`` holds what was done to each row. Works with any
    network before it and any loss behind it; call ``quantizer.update(embeddings)``
    after the optimizer's step, so that the codebooks follow.

    Args:
        quantizer: fitted before the first backward.
        neighbors: T, how many candidates each row may choose from; at most all
            codewords there are.
        rule: how the gradient is snapped.
        nonfinite: what to do with NaN or infinity in the gradient: "raise" an error,
            or "pass" such rows on unchanged, as a gradient scaler needs to see them.

    Example:
        >>> import gradsnap as gs
        >>> x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        >>> quantizer = gs.ProductQuantizer(8, num_codebooks=2, codebook_size=16)
        >>> snap = gs.GradientSnapping(quantizer.fit(x), neighbors=20)
        >>> y = x.clone().requires_grad_()
        >>> torch.equal(snap(y), y)
        True
        >>> snap(y).square().sum().backward()
        >>> tuple(snap.last.conformity.shape)
        (64,)
    """

    gives_items: ClassVar[bool] = False
    """Whether the output are items for queries, instead of the embeddings."""

    last: Snapped | None

    def __init__(
        self,
        quantizer: Quantizer,
        neighbors: int = 150,
        rule: Rule | None = None,
        nonfinite: Literal["raise", "pass"] = "raise",
    ) -> None:
        super().__init__()
        if neighbors < 1:
            raise InputError(f"neighbors must be at least 1, got {neighbors}")
        if nonfinite not in ("raise", "pass"):
            raise InputError(f"nonfinite must be 'raise' or 'pass', got {nonfinite!r}")
        self.quantizer = quantizer
        self.neighbors = neighbors
        self.rule = rule if rule is not None else SnappingRule()
        self.nonfinite = nonfinite
        self.last = None
        self._register()

    def _register(self) -> None:
        """Gives the layer a number, by which a compiled graph finds it again."""
        self._number = next(_numbers)
        _layers[self._number] = self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._register()  # a copy is a layer of its own

    def forward(self, embeddings: Tensor) -> Tensor:
        """Returns the embeddings (n, dim) as they are."""
        self._check_shape(embeddings)
        same: Tensor = _Snap.apply(embeddings, self._number)  # type: ignore[no-untyped-call]
        return same

    def _check_shape(self, embeddings: Tensor) -> None:
        dim = self.quantizer.dim
        if embeddings.ndim != 2 or embeddings.shape[1] != dim:
            raise InputError(
                f"expected embeddings of shape (n, {dim}), "
                f"got {tuple(embeddings.shape)}"
            )

    @property
    def strength(self) -> float:
        """λ of the rule; set it while training, as a schedule does."""
        return self.rule.strength

    @strength.setter
    def strength(self, value: float) -> None:
        self.rule = dataclasses.replace(self.rule, strength=value)

    def extra_repr(self) -> str:
        """Shown in ``print(layer)``."""
        return f"neighbors={self.neighbors}, rule={self.rule}"

    @torch.no_grad()
    def snap(self, gradient: Tensor, embeddings: Tensor) -> Tensor:
        """The snapped gradient Δy (n, dim) of gradient and embeddings (n, dim)."""
        quantizer = self.quantizer  # looked up once, as a module takes its time
        with full_precision(gradient):
            if can_fuse(self.rule, quantizer, gradient, embeddings):
                return self._fused(quantizer, gradient, embeddings)
            finite = self._checked(gradient, embeddings)
            clean = gradient if finite is None else gradient.nan_to_num(0, 0, 0)
            snapped = self._snap(clean, embeddings).to(gradient.dtype)
        return snapped if finite is None else snapped.where(finite, gradient)

    def _fused(
        self, quantizer: Quantizer, gradient: Tensor, embeddings: Tensor
    ) -> Tensor:
        """``_snap`` in one compiled pass; finds codes on the way, for an update."""
        rule, product = cast(SnappingRule, self.rule), cast(ProductQuantizer, quantizer)
        found = fused(rule, product, gradient, embeddings, self._count(quantizer))
        # As by the module itself, which would look for parameters and take far longer.
        self.__dict__["last"] = Snapped(
            found.conformity, found.distance, found.accepted
        )
        product._remember(embeddings, found.nearest)
        return found.snapped

    def _count(self, quantizer: Quantizer) -> int:
        """T, or all codewords if these are fewer."""
        every: int = quantizer.codebook_size**quantizer.num_codebooks
        return min(self.neighbors, every)

    def _snap(self, gradient: Tensor, embeddings: Tensor) -> Tensor:
        quantizer = self.quantizer
        y, g = embeddings.to(quantizer.dtype), gradient.to(quantizer.dtype)
        distances, codes = quantizer._candidates(y, self._count(quantizer))
        along = sums_of_own(quantizer._inner_products(g), codes)  # ⟨g, c⟩, (n, T)
        slopes = (g * y).sum(dim=1, keepdim=True) - along  # ⟨g, y − c⟩
        place, weight = self.rule.choose(distances, slopes)
        rows = torch.arange(len(y), device=y.device)
        codes = codes[rows, place]  # (n, M); those of all candidates are let go
        chosen = quantizer._decode(codes)  # (n, dim)
        wide = torch.promote_types(gradient.dtype, quantizer.dtype)
        gradient = gradient.to(wide)
        offset = embeddings.to(wide) - chosen
        snapped, accepted = self.rule.combine(gradient, offset, weight.to(wide))
        self.last = Snapped(*_agreement(gradient, offset), accepted)
        return snapped

    def _checked(self, gradient: Tensor, embeddings: Tensor) -> Tensor | None:
        """Rows to be trusted (n, 1), or None for all; one look at the device."""
        whole = (gradient.sum() + embeddings.sum()).isfinite()
        if bool(whole & self.quantizer.fitted):
            return None
        if not self.quantizer.fitted:
            raise NotFittedError(
                f"the {type(self.quantizer).__name__} of this layer has no codebooks "
                "yet: call quantizer.fit(embeddings) before the first backward"
            )
        finite = (gradient.isfinite() & embeddings.isfinite()).all(dim=1, keepdim=True)
        if bool(finite.all()):
            return None  # it was the sum that overflowed
        if self.nonfinite == "raise":
            raise InputError(
                f"{int((~finite).sum())} of {len(finite)} rows of the gradient or the "
                "embeddings hold NaN or infinity (nonfinite='pass' lets them through)"
            )
        return finite


class CodeSnapping(GradientSnapping):
    """Forward, what a code says of the embedding; backward, the gradient snapped.

    Search compares a query as a float with items as codes. This layer gives the items
    of a loss as they will be searched, ŷ = decode(encode(y)), and hands the gradient
    that reaches ŷ to y by the snapping rule, around y: a straight-through estimator
    that knows where the other codewords are. With a codebook that holds every y it is
    the plain layer. Codewords that learn by gradient (see ``Quantizer.forward``) get
    the gradient of the rows they stand for, as it is.

        loss = criterion(embeddings, labels, items=layer(embeddings))

    Args and ``last`` are as of ``GradientSnapping``.

    Example:
        >>> import gradsnap as gs
        >>> x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        >>> quantizer = gs.ProductQuantizer(8, num_codebooks=2, codebook_size=4).fit(x)
        >>> codes = gs.CodeSnapping(quantizer)
        >>> torch.equal(codes(x), quantizer(x))
        True
    """

    gives_items = True

    def forward(self, embeddings: Tensor) -> Tensor:
        """Reconstructions (n, dim) of the embeddings (n, dim)."""
        self._check_shape(embeddings)
        said = self.quantizer(embeddings).to(embeddings.dtype)
        items: Tensor = _SnapCodes.apply(embeddings, said, self._number)  # type: ignore[no-untyped-call]
        return items


_numbers = itertools.count()
_layers: WeakValueDictionary[int, GradientSnapping] = WeakValueDictionary()


@torch.library.custom_op("gradsnap::snap", mutates_args=())
def _snap_op(gradient: Tensor, embeddings: Tensor, layer: int) -> Tensor:
    """Opaque to the compiler, so that any rule and any quantizer may be used."""
    return _layers[layer].snap(gradient, embeddings)


@_snap_op.register_fake
def _(gradient: Tensor, embeddings: Tensor, layer: int) -> Tensor:
    return torch.empty_like(gradient)


def _snapped(gradient: Tensor, embeddings: Tensor, layer: int) -> Tensor:
    """The snapped gradient; by the operator only where a compiler looks on.

    Going through the operator takes longer than a small batch's own work.
    """
    if torch.compiler.is_compiling():
        snapped: Tensor = _snap_op(gradient, embeddings, layer)
        return snapped
    return _layers[layer].snap(gradient, embeddings)


class _Snap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, layer: int) -> Tensor:
        ctx.save_for_backward(embeddings)
        ctx.layer = layer
        return embeddings.view_as(embeddings)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (embeddings,) = ctx.saved_tensors
        return _snapped(gradient, embeddings, ctx.layer), None


class _SnapCodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, said: Tensor, layer: int) -> Tensor:
        ctx.save_for_backward(embeddings)
        ctx.layer = layer
        return said.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (embeddings,) = ctx.saved_tensors
        to_codewords = gradient if ctx.needs_input_grad[1] else None
        return _snapped(gradient, embeddings, ctx.layer), to_codewords, None


def _agreement(gradient: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine of gradient and offset (n, dim), and the offset's length: (n,) each."""
    distance = length(offset)
    slope = (gradient * offset).sum(dim=1, keepdim=True)
    cosine = slope / positive(length(gradient)) / positive(distance)
    return cosine[:, 0], distance[:, 0]
