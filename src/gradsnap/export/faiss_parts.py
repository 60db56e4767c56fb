"""FAISS indexes put together from our codebooks and codes."""

from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.packing import unpack
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError
from gradsnap.index import InvertedIndex, MultiIndex
from gradsnap.index.faiss_forms import ProductForm
from gradsnap.index.segments import Segment

Array = NDArray[Any]


def product_index(form: ProductForm) -> Any:
    """An IndexPQ with our codebooks and no items."""
    quantizer = form.faiss_quantizer()
    made = faiss.IndexPQ(quantizer.d, quantizer.M, quantizer.nbits)
    made.pq = quantizer
    made.is_trained = True
    return made


def transform(form: ProductForm, index: Any) -> Any:
    """The index after the form's rotation and padding, where there are any."""
    if form.matrix is None:
        return index
    dim, wide = form.matrix.shape
    matrix: Any = faiss.LinearTransform(dim, wide, False)
    values = np.ascontiguousarray(form.matrix.T.numpy()).ravel()
    faiss.copy_array_to_vector(values, matrix.A)
    matrix.is_trained = True
    matrix.is_orthonormal = dim == wide
    made = faiss.IndexPreTransform(matrix, index)
    matrix.this.disown()
    index.this.disown()
    made.own_fields = True
    return made


def additive_index(
    quantizer: Quantizer, items: Segment | None
) -> tuple[Any, Array | None]:
    """An IndexResidualQuantizer without items, and codes for it with our norms.

    FAISS adds ``norm − 2 Σ ⟨q, c⟩``; with our norms the sums are our distances, also
    for composite codes, whose cross term is taken for constant.
    """
    bits = quantizer.codebook_size.bit_length() - 1
    kind = faiss.AdditiveQuantizer.ST_norm_float
    shape = quantizer.dim, quantizer.num_codebooks, bits
    make: Any = faiss.IndexResidualQuantizer
    made = make(*shape, faiss.METRIC_L2, kind)
    words = quantizer.codebooks.float().cpu()
    faiss.copy_array_to_vector(
        np.ascontiguousarray(words.numpy()).ravel(), made.rq.codebooks
    )
    made.rq.is_trained = made.is_trained = True
    if items is None:
        return made, None
    codes = unpack(items.codes, quantizer.num_codebooks, quantizer.codebook_size)
    norms = _norms(quantizer, torch.from_numpy(codes.astype(np.int64)))
    packed = np.zeros((len(codes), made.rq.code_size), dtype=np.uint8)
    integers = np.ascontiguousarray(codes, dtype=np.int32)
    made.rq.pack_codes(
        len(codes),
        faiss.swig_ptr(integers),
        faiss.swig_ptr(packed),
        -1,
        faiss.swig_ptr(norms),
    )
    return made, packed


def inverted_index(
    index: InvertedIndex | MultiIndex, form: ProductForm, items: Segment | None
) -> Any:
    """An IndexIVFPQ with our lists, after the form's rotation."""
    quantizer = form.faiss_quantizer()
    coarse, numbers = _coarse(index, form)
    made: Any = faiss.IndexIVFPQ(
        coarse, quantizer.d, index.num_lists, quantizer.M, quantizer.nbits
    )
    coarse.this.disown()
    made.own_fields = True
    made.pq = quantizer
    made.by_residual = index.residual
    made.is_trained = True
    made.nprobe = min(index.probes, index.num_lists)
    if isinstance(index, MultiIndex):
        made.quantizer_trains_alone = 1
    if items is not None:
        _fill(made, items, numbers)
    made.precompute_table()
    return transform(form, made)


def _fill(made: Any, items: Segment, numbers: Array) -> None:
    """Puts the items into the inverted lists."""
    ids, bounds = items.all_ids(), np.asarray(items.bounds)
    codes = np.ascontiguousarray(items.codes)
    for ours, theirs in enumerate(numbers.tolist()):
        start, stop = int(bounds[ours]), int(bounds[ours + 1])
        if start < stop:
            made.invlists.add_entries(
                theirs,
                stop - start,
                faiss.swig_ptr(ids[start:stop]),
                faiss.swig_ptr(codes[start:stop]),
            )
    made.ntotal = len(items)


def _coarse(index: InvertedIndex | MultiIndex, form: ProductForm) -> tuple[Any, Array]:
    """FAISS's coarse quantizer, and the number it has for each of our lists."""
    if isinstance(index, MultiIndex):
        return _pairs(index, form)
    if index.centroids is None:
        raise InputError("this InvertedIndex has no centroids yet: call fit first")
    turned = form.turned(index.centroids)
    made = faiss.IndexFlatL2(turned.shape[1])
    made.add(turned)
    return made, np.arange(index.num_lists)


def _pairs(index: MultiIndex, form: ProductForm) -> tuple[Any, Array]:
    """A MultiIndexQuantizer; it counts the first half's codewords fastest."""
    if form.matrix is not None or index.quantizer.dim % 2:
        raise InputError(
            "FAISS takes a MultiIndex over a ProductQuantizer whose dim is even and a "
            "multiple of num_codebooks"
        )
    size = index.coarse.codebook_size
    made = faiss.MultiIndexQuantizer(index.quantizer.dim, 2, size.bit_length() - 1)
    words = np.ascontiguousarray(index.coarse.codebooks.float().cpu().numpy())
    faiss.copy_array_to_vector(words.ravel(), made.pq.centroids)
    made.is_trained = True
    made.ntotal = size**2
    ours = np.arange(size**2)
    return made, ours // size + ours % size * size


def _norms(quantizer: Quantizer, codes: Tensor) -> Array:
    """Squared norms of reconstructions, as our distances have them, (n,)."""
    own = quantizer.codebooks.square().sum(dim=2).T.gather(0, codes).sum(dim=1)
    norms = own + quantizer.cross_terms(codes)
    return np.ascontiguousarray(norms.float().cpu().numpy())
