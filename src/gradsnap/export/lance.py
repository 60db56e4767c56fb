"""Lance tables: vectors, metadata, and an IVF_PQ index that holds our codebooks."""

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsnap.arrays import Given
from gradsnap.coders.checks import checked_rows
from gradsnap.coders.coder import Coder
from gradsnap.errors import InputError
from gradsnap.extras import require_lance
from gradsnap.index import SearchResult
from gradsnap.index.faiss_forms import ProductForm, product_form
from gradsnap.index.metadata import Metadata, checked_metadata
from gradsnap.index.segments import GivenIds, new_ids

VECTOR, ID, INDEX = "vector", "id", "gradsnap"

SIZES = (16, 256)
"""Codewords a codebook that Lance has."""


def write_lance(
    vectors: Given,
    quantizer: Coder,
    path: str | os.PathLike[str],
    ids: GivenIds | None = None,
    metadata: Metadata | None = None,
    centroids: Tensor | None = None,
) -> Any:
    """Writes a Lance table with an index of our codebooks; returns the dataset.

    The table has the columns ``id``, ``vector`` and those of the metadata. With an
    ``OptimizedProductQuantizer`` the vectors are stored rotated; ``search_lance``
    rotates queries likewise.

    Args:
        vectors: (n, dim), at least one.
        quantizer: fitted; a ``ProductQuantizer`` or ``OptimizedProductQuantizer`` of 16
            or 256 codewords a codebook, whose ``num_codebooks`` divides ``dim``.
        path: of the table, a folder that does not exist yet.
        ids: n whole numbers or strings; 0, 1, 2 … if not given.
        metadata: columns of n values by name, or a pyarrow table.
        centroids: of the lists, (lists, dim), for a quantizer fitted to residuals:
            Lance encodes what they leave. None for a quantizer fitted to vectors; then
            there is one list around zero.

    Raises:
        InputError: Lance cannot hold such codes, or the extra is not installed.
    """
    lance = require_lance()
    form = product_form_for_lance(quantizer)
    x = checked_rows(vectors, quantizer.dim, quantizer.dtype)
    if len(x) == 0:
        raise InputError("a Lance index needs at least one vector; got none")
    if os.path.exists(path):
        raise InputError(f"cannot write {os.fspath(path)}: it exists already")
    dataset = lance.write_dataset(
        _table(form.rotate(x), ids, metadata), os.fspath(path)
    )
    given = torch.zeros(1, quantizer.dim) if centroids is None else centroids
    lists = form.rotate(checked_rows(given, quantizer.dim, quantizer.dtype))
    segment = dataset.create_index_uncommitted(
        VECTOR,
        "IVF_PQ",
        name=INDEX,
        metric="L2",
        num_partitions=len(lists),
        num_sub_vectors=quantizer.num_codebooks,
        num_bits=quantizer.codebook_size.bit_length() - 1,
        ivf_centroids=lists,
        pq_codebook=np.ascontiguousarray(form.codebooks.numpy()),
        fragment_ids=[part.fragment_id for part in dataset.get_fragments()],
    )
    return dataset.commit_existing_index_segments(INDEX, VECTOR, [segment])


def search_lance(
    dataset: Any,
    quantizer: Coder,
    queries: Given,
    k: int,
    probes: int = 1,
    filter: str | None = None,
) -> SearchResult:
    """The k nearest rows by Lance's index, in the form our indexes answer.

    Args:
        dataset: a Lance dataset or the path of one, made by ``write_lance``.
        quantizer: the one it was made with.
        queries: (q, dim).
        k: how many; padded with -1 (None among strings) where there are fewer.
        probes: lists a query looks into.
        filter: a condition on metadata in Lance's SQL, applied before the search.
    """
    if isinstance(dataset, str | os.PathLike):
        dataset = require_lance().dataset(os.fspath(dataset))
    rows = product_form_for_lance(quantizer).rotate(
        checked_rows(queries, quantizer.dim, quantizer.dtype)
    )
    named = str(dataset.schema.field(ID).type) in ("string", "large_string")
    ids: list[list[Any]] = []
    distances = torch.full((len(rows), k), torch.inf)
    for number, row in enumerate(rows):
        nearest = {"column": VECTOR, "q": row, "k": k, "nprobes": probes}
        found = dataset.to_table(
            columns=[ID, "_distance"], nearest=nearest, filter=filter, prefilter=True
        )
        pairs = zip(found["_distance"].to_pylist(), found[ID].to_pylist(), strict=True)
        ordered = sorted(pairs)
        missing = [None if named else -1] * (k - len(ordered))
        ids.append([i for _, i in ordered] + missing)
        distances[number, : len(ordered)] = torch.tensor([d for d, _ in ordered])
    return SearchResult(ids if named else torch.tensor(ids), distances)


def _table(rows: Any, ids: GivenIds | None, metadata: Metadata | None) -> Any:
    import pyarrow

    count, dim = rows.shape
    named = np.arange(count) if ids is None else new_ids(ids, count)
    flat = pyarrow.array(rows.ravel())
    columns = {
        ID: pyarrow.array(named),
        VECTOR: pyarrow.FixedSizeListArray.from_arrays(flat, dim),
    }
    if metadata is not None:
        extra = checked_metadata(metadata, count)
        own = [name for name in extra.column_names if name in columns]
        if own:
            raise InputError(f"metadata may not have columns called {', '.join(own)}")
        columns |= {name: extra[name] for name in extra.column_names}
    return pyarrow.table(columns)


def product_form_for_lance(quantizer: Coder) -> ProductForm:
    """The form of a quantizer whose codes Lance can hold.

    Raises:
        InputError: it cannot.
    """
    quantizer._require_fitted()
    form = product_form(quantizer)
    fits = quantizer.dim % quantizer.num_codebooks == 0
    if form is None or not fits or quantizer.codebook_size not in SIZES:
        raise InputError(
            "Lance takes a ProductQuantizer or OptimizedProductQuantizer of 16 or 256 "
            "codewords whose num_codebooks divides dim; got a "
            f"{type(quantizer).__name__} of dim {quantizer.dim}, "
            f"{quantizer.num_codebooks} x {quantizer.codebook_size}"
        )
    return form
