"""FAISS indexes put together from our codebooks and codes.

What an index or a coder becomes is found by its type: a new one that is not registered
here is refused with a sentence.
"""

import functools
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders import Coder, Hasher
from gradsnap.coders.packing import unpack
from gradsnap.coders.quantizers import OptimizedProductQuantizer, ProductQuantizer
from gradsnap.coders.quantizers.summed import SummedQuantizer
from gradsnap.errors import InputError
from gradsnap.index import (
    ExhaustiveIndex,
    Index,
    InvertedIndex,
    LocallyOptimizedIndex,
    MultiIndex,
)
from gradsnap.index.faiss_forms import ProductForm, product_form
from gradsnap.index.segments import Segment

Array = NDArray[Any]


@functools.singledispatch
def index_in_faiss(index: Index, items: Segment | None) -> Any:
    """The index as FAISS's own, with these items.

    Raises:
        InputError: FAISS has no such index.
    """
    raise InputError(
        f"FAISS has no {type(index).__name__} over a {type(index.coder).__name__}; it "
        "takes ExhaustiveIndex over quantizers and hashers, InvertedIndex over PQ and "
        "OPQ, MultiIndex over PQ, and HammingIndex"
    )


refuse = index_in_faiss.dispatch(object)
index_in_faiss.register(LocallyOptimizedIndex, refuse)


@index_in_faiss.register
def _(index: ExhaustiveIndex, items: Segment | None) -> Any:
    made = codes_in_faiss(index.coder, items)
    return refuse(index, items) if made is None else made


@index_in_faiss.register(InvertedIndex)
@index_in_faiss.register(MultiIndex)
def _(index: InvertedIndex | MultiIndex, items: Segment | None) -> Any:
    form = product_form(index.coder)
    if form is None:
        return refuse(index, items)
    return _inverted_index(index, form, items)


@functools.singledispatch
def codes_in_faiss(coder: Coder, items: Segment | None) -> Any:
    """An index of all codes; None for a coder that FAISS has nothing like."""
    return None


@codes_in_faiss.register(ProductQuantizer)
@codes_in_faiss.register(OptimizedProductQuantizer)
def _(coder: Coder, items: Segment | None) -> Any:
    form = product_form(coder)
    if form is None:
        return None
    codes = None if items is None else np.ascontiguousarray(items.codes)
    return _transform(form, _fill_codes(form.faiss_index(), codes, items))


@codes_in_faiss.register
def _(coder: SummedQuantizer, items: Segment | None) -> Any:
    return _fill_codes(*_additive_index(coder, items), items)


@codes_in_faiss.register
def _(coder: Hasher, items: Segment | None) -> Any:
    if coder.hamming_levels is None or coder.bits % 8:
        weights = " with weights" if coder.hamming_levels is None else ""
        raise InputError(
            f"FAISS takes hashes of whole bytes without weights, got {coder.bits} bits"
            + weights
        )
    made: Any = faiss.IndexBinaryFlat(coder.bits)
    if items is None:
        return made
    named = faiss.IndexBinaryIDMap2(made)
    made.this.disown()
    named.own_fields = True
    named.add_with_ids(np.ascontiguousarray(items.codes), items.all_ids())
    return named


def _fill_codes(index: Any, packed: Array | None, items: Segment | None) -> Any:
    """The index with packed codes, behind an id map unless ids count from 0."""
    if items is None or packed is None:
        return index
    if items.ids is None and items.first == 0:
        index.add_sa_codes(packed)
        return index
    made = faiss.IndexIDMap2(index)  # which takes an empty index only
    index.add_sa_codes(packed)
    faiss.copy_array_to_vector(items.all_ids(), made.id_map)
    made.ntotal = index.ntotal
    made.construct_rev_map()
    index.this.disown()
    made.own_fields = True
    return made


def _transform(form: ProductForm, index: Any) -> Any:
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


def _additive_index(
    quantizer: SummedQuantizer, items: Segment | None
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


def _inverted_index(
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
        _fill_lists(made, items, numbers)
    made.precompute_table()
    return _transform(form, made)


def _fill_lists(made: Any, items: Segment, numbers: Array) -> None:
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
    rotated = form.rotate(index.centroids)
    made = faiss.IndexFlatL2(rotated.shape[1])
    made.add(rotated)
    return made, np.arange(index.num_lists)


def _pairs(index: MultiIndex, form: ProductForm) -> tuple[Any, Array]:
    """A MultiIndexQuantizer; it counts the first half's codewords fastest."""
    if form.matrix is not None or index.coder.dim % 2:
        raise InputError(
            "FAISS takes a MultiIndex over a ProductQuantizer whose dim is even and a "
            "multiple of num_codebooks"
        )
    size = index.coarse.codebook_size
    made = faiss.MultiIndexQuantizer(index.coder.dim, 2, size.bit_length() - 1)
    words = np.ascontiguousarray(index.coarse.codebooks.float().cpu().numpy())
    faiss.copy_array_to_vector(words.ravel(), made.pq.centroids)
    made.is_trained = True
    made.ntotal = size**2
    ours = np.arange(size**2)
    return made, ours // size + ours % size * size


def _norms(quantizer: SummedQuantizer, codes: Tensor) -> Array:
    """Squared norms of reconstructions, as our distances have them, (n,)."""
    own = quantizer.codebooks.square().sum(dim=2).T.gather(0, codes).sum(dim=1)
    norms = own + quantizer.cross_terms(codes)
    return np.ascontiguousarray(norms.float().cpu().numpy())
