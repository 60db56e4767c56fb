"""Product quantizers in the form FAISS and Lance want: a rotation and equal blocks."""

import functools
from typing import Any, NamedTuple

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers import OptimizedProductQuantizer, ProductQuantizer

Array = NDArray[Any]


class ProductForm(NamedTuple):
    """A product quantizer on vectors that were multiplied by ``matrix``."""

    matrix: Tensor | None
    """(dim, M · width): rotates and pads; None where neither is needed."""
    codebooks: Tensor
    """(M, K, width), float32."""

    def rotate(self, x: Tensor) -> Array:
        """X (n, dim) as the blocks see it, float32 (n, M · width)."""
        x = x.detach().float().cpu()
        rotated = x if self.matrix is None else x @ self.matrix
        return np.ascontiguousarray(rotated.numpy())

    def faiss_quantizer(self) -> Any:
        """A FAISS product quantizer with these codebooks."""
        num_codebooks, size, width = self.codebooks.shape
        made = faiss.ProductQuantizer(
            num_codebooks * width, num_codebooks, size.bit_length() - 1
        )
        values = np.ascontiguousarray(self.codebooks.numpy()).ravel()
        faiss.copy_array_to_vector(values, made.centroids)
        return made

    def faiss_index(self) -> Any:
        """A FAISS IndexPQ with these codebooks and no items."""
        quantizer = self.faiss_quantizer()
        made = faiss.IndexPQ(quantizer.d, quantizer.M, quantizer.nbits)
        made.pq = quantizer
        made.is_trained = True
        return made


@functools.singledispatch
def product_form(coder: Coder) -> ProductForm | None:
    """The form of a PQ or OPQ; None for other coders."""
    return None


@product_form.register
def _(coder: ProductQuantizer) -> ProductForm:
    return ProductForm(_padded_rotation(coder, None), coder.codebooks.float().cpu())


@product_form.register
def _(coder: OptimizedProductQuantizer) -> ProductForm:
    matrix = _padded_rotation(coder.inner, coder.rotation.float().cpu())
    return ProductForm(matrix, coder.inner.codebooks.float().cpu())


def _padded_rotation(
    quantizer: ProductQuantizer, rotation: Tensor | None
) -> Tensor | None:
    """The rotation followed by zero-padding of short blocks, (dim, M · width)."""
    if quantizer.dim % quantizer.num_codebooks == 0:
        return rotation
    start = torch.eye(quantizer.dim) if rotation is None else rotation
    parts = start.tensor_split(quantizer.num_codebooks, dim=1)
    wide = [functional.pad(p, (0, quantizer.width - p.shape[1])) for p in parts]
    return torch.cat(wide, dim=1)
