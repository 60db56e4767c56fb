"""Indexes as plain FAISS files, and codebooks from FAISS indexes."""

import os
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from gradsnap.coders.quantizers import (
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
)
from gradsnap.errors import FileFormatError, InputError
from gradsnap.export.faiss_parts import (
    additive_index,
    inverted_index,
    product_index,
    transform,
)
from gradsnap.files import replacing
from gradsnap.index import (
    ExhaustiveIndex,
    HammingIndex,
    Index,
    InvertedIndex,
    LocallyOptimizedIndex,
    MultiIndex,
)
from gradsnap.index.faiss_forms import ProductForm
from gradsnap.index.segments import Segment, merged

Array = NDArray[Any]


def to_faiss(index: Index) -> Any:
    """The index as FAISS's own, with the same codebooks, codes, lists and ids.

    ===================== ======================= ==================================
    ours                  quantizer               FAISS
    ===================== ======================= ==================================
    ``ExhaustiveIndex``   PQ, OPQ                 IndexPQ, after a linear transform
    ``ExhaustiveIndex``   RVQ, GRVQ, AQ, CQ       IndexResidualQuantizer with norms
    ``InvertedIndex``     PQ, OPQ                 IndexIVFPQ
    ``MultiIndex``        PQ                      IndexIVFPQ, MultiIndexQuantizer
    ``HammingIndex``      no weights              IndexBinaryFlat
    ===================== ======================= ==================================

    Raises:
        InputError: FAISS has no such index, or ids are strings.
    """
    if index.items.named:
        raise InputError(
            "FAISS ids are whole numbers, the ids of this index are strings"
        )
    items = merged(index.items.segments) if index.items.segments else None
    if isinstance(index, HammingIndex):
        return _binary(index, items)
    if isinstance(index, ExhaustiveIndex):
        form = ProductForm.of(index.quantizer)
        if form is None:
            empty, packed = additive_index(index.quantizer, items)
            return _filled(empty, packed, items)
        codes = None if items is None else np.ascontiguousarray(items.codes)
        return transform(form, _filled(product_index(form), codes, items))
    if isinstance(index, InvertedIndex | MultiIndex):
        form = ProductForm.of(index.quantizer)
        if form is not None and not isinstance(index, LocallyOptimizedIndex):
            return inverted_index(index, form, items)
    raise InputError(
        f"FAISS has no {type(index).__name__} over a {type(index.coder).__name__}; "
        "it takes ExhaustiveIndex over any quantizer, InvertedIndex over PQ and OPQ, "
        "MultiIndex over PQ, and HammingIndex"
    )


def write_faiss(index: Index, path: str | os.PathLike[str]) -> None:
    """Writes a FAISS file that any FAISS program opens; see ``to_faiss``.

    Hashes make a binary index, for ``faiss.read_index_binary``.
    """
    made = to_faiss(index)
    write: Any = faiss.write_index
    if isinstance(index, HammingIndex):
        write = faiss.write_index_binary
    with replacing(path) as temporary:
        write(made, os.fspath(temporary))


def from_faiss(source: Any) -> Quantizer:
    """A quantizer with the codebooks of a FAISS index.

    Args:
        source: a FAISS index, or the path of one: IndexPQ, IndexIVFPQ (whose codebooks
            may be of residuals), either after an OPQ matrix, or IndexResidualQuantizer;
            with an id map or without.

    Raises:
        InputError: the index holds no codebooks of ours.
        FileFormatError: the file cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        source = _read(os.fspath(source))
    rotation: Array | None = None
    index = _unwrapped(source)
    if isinstance(index, faiss.IndexPreTransform):
        rotation = _rotation(index)
        index = _unwrapped(index.index)
    if isinstance(index, faiss.IndexPQ | faiss.IndexIVFPQ | faiss.IndexPQFastScan):
        return _product(index.pq, rotation)
    if isinstance(index, faiss.IndexResidualQuantizer) and rotation is None:
        return _residual(index.rq)
    raise InputError(
        f"a FAISS {type(index).__name__} has no codebooks to import; known: IndexPQ, "
        "IndexIVFPQ, either in an IndexPreTransform, and IndexResidualQuantizer"
    )


def _filled(index: Any, packed: Array | None, items: Segment | None) -> Any:
    """The index with packed codes, behind an id map unless ids count from 0."""
    if items is None or packed is None:
        return index
    if items.ids is None and items.first == 0:
        index.add_sa_codes(packed)
        return index
    made = faiss.IndexIDMap2(index)
    index.add_sa_codes(packed)
    faiss.copy_array_to_vector(items.all_ids(), made.id_map)
    made.ntotal = index.ntotal
    made.construct_rev_map()
    index.this.disown()
    made.own_fields = True
    return made


def _binary(index: HammingIndex, items: Segment | None) -> Any:
    if index.weights is not None or index.bits % 8:
        raise InputError(
            f"FAISS takes hashes of whole bytes without weights, got {index.bits} bits"
            + (" with weights" if index.weights is not None else "")
        )
    made: Any = faiss.IndexBinaryFlat(index.bits)
    if items is None:
        return made
    named = faiss.IndexBinaryIDMap2(made)
    made.this.disown()
    named.own_fields = True
    named.add_with_ids(np.ascontiguousarray(items.codes), items.all_ids())
    return named


def _read(path: str) -> Any:
    if not os.path.isfile(path):
        raise InputError(f"there is no file {path}")
    try:
        return faiss.read_index(path)
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        raise FileFormatError(f"{path} is not a FAISS index: {text}") from error


def _unwrapped(index: Any) -> Any:
    index = faiss.downcast_index(index)
    while isinstance(index, faiss.IndexIDMap | faiss.IndexIDMap2):
        index = faiss.downcast_index(index.index)
    return index


def _rotation(index: Any) -> Array:
    """The one rotation before the index: x becomes x @ rotation."""
    matrix: Any = faiss.downcast_VectorTransform(index.chain.at(0))
    single = index.chain.size() == 1 and isinstance(matrix, faiss.LinearTransform)
    if not single or matrix.d_in != matrix.d_out or matrix.b.size():
        raise InputError(
            "only one square linear transform before the index can be imported, got "
            f"{index.chain.size()}, the first a {type(matrix).__name__}"
        )
    values = faiss.vector_to_array(matrix.A).reshape(matrix.d_out, matrix.d_in).T
    if not np.allclose(values.T @ values, np.eye(len(values)), atol=1e-3):
        raise InputError("the transform before the index is not a rotation")
    return np.ascontiguousarray(values)


def _product(pq: Any, rotation: Array | None) -> Quantizer:
    words = faiss.vector_to_array(pq.centroids).reshape(pq.M, pq.ksub, pq.dsub)
    made: Quantizer
    if rotation is None:
        made = ProductQuantizer(pq.d, pq.M, pq.ksub)
    else:
        made = OptimizedProductQuantizer(pq.d, pq.M, pq.ksub)
        made.rotation.copy_(torch.from_numpy(rotation))
        made.inner.fitted.fill_(True)
    made.codebooks.copy_(torch.from_numpy(words))
    made.fitted.fill_(True)
    return made


def _residual(rq: Any) -> Quantizer:
    bits = set(faiss.vector_to_array(rq.nbits).tolist())
    if len(bits) != 1:
        raise InputError(f"codebooks must be of one size, got bits {sorted(bits)}")
    made = ResidualQuantizer(rq.d, rq.M, 2 ** bits.pop())
    words = faiss.vector_to_array(rq.codebooks).reshape(made.codebooks.shape)
    made.codebooks.copy_(torch.from_numpy(words))
    made.fitted.fill_(True)
    return made
