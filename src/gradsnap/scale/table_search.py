"""Searching a table: by Lance's index where it has one, else by all codes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.coders.packing import unpack
from gradsnap.errors import InputError
from gradsnap.export.lance import product_form_for_lance
from gradsnap.index import ExhaustiveIndex
from gradsnap.index.roots import Roots
from gradsnap.scale.lance_index import stored_lists
from gradsnap.scale.merging import Found, merged
from gradsnap.scale.table import CODE, EMBEDDING, ID, CodeTable, among

ROWS_AT_ONCE = 262_144
"""Codes that are compared together; memory does not grow with the table."""


def search_by_index(
    table: CodeTable, queries: Tensor, k: int, probes: int | None = None
) -> list[list[Found]]:
    """Ids and distances of the k nearest rows of each query, by Lance's index.

    Where the index has the table's own codebooks, Lance finds some more than k, and
    they are compared again by their codes in the table: distances and the order of
    equal ones are then those of our own index. Rows that are in no part of the index
    yet Lance finds by their embeddings.

    Args:
        table: with an index that ``index_table`` made.
        queries: (q, dim).
        k: how many of each.
        probes: lists a query looks into; an eighth of them, at least 8, if not given.

    Raises:
        InputError: there is no index.
    """
    lists = stored_lists(table)
    if lists is None:
        raise InputError(f"{table.address} has no index: gradsnap index makes one")
    coder = table.coder
    own = lists.coder.fingerprint() == coder.fingerprint()
    many = len(lists.centroids)
    asked = min(many, probes or max(8, many // 8))
    found = []
    seen = product_form_for_lance(coder).rotate(queries)
    for query, row in zip(queries, seen, strict=True):
        hits = _lance_hits(table, row, wider(k) if own else k, asked)
        found.append(_by_codes(coder, query, hits, k) if own else _by_lance(hits))
    return found


def wider(k: int) -> int:
    """How many Lance is asked for where k are wanted: equal codes are many."""
    return 4 * k + 64


def _lance_hits(table: CodeTable, row: Any, count: int, asked: int) -> Any:
    """Ids, codes and distances of the nearest rows by Lance, a pyarrow table."""
    nearest = {
        "column": EMBEDDING,
        "q": row.astype(np.float16),
        "k": count,
        "minimum_nprobes": asked,
        "maximum_nprobes": asked,
    }
    columns = [ID, CODE, "_distance"]
    return table.dataset.to_table(columns=columns, nearest=nearest, with_row_id=True)


def _by_lance(hits: Any) -> list[Found]:
    pairs = zip(hits[ID].to_pylist(), hits["_distance"].to_pylist(), strict=True)
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def _by_codes(coder: Coder, query: Tensor, hits: Any, k: int) -> list[Found]:
    """The k nearest of some rows by our own tables, as an index of them answers."""
    rows = hits.sort_by("_rowid")  # as they lie in the table
    if len(rows) == 0:
        return []
    index = ExhaustiveIndex(coder).add_codes(codes_of(rows, coder), ids_of(rows))
    ids, distances = index.search(query[None], min(k, len(rows)))
    names = ids[0] if isinstance(ids, list) else ids[0].tolist()
    return list(zip(names, distances[0].tolist(), strict=True))


def search_by_codes(
    table: CodeTable, queries: Tensor, k: int, where: str | None = None
) -> list[list[Found]]:
    """The same by all codes and our own tables: exactly as our exhaustive index.

    Args:
        table: to search.
        queries: (q, dim).
        k: how many of each.
        where: a condition on metadata that rows must fulfil, as for an index.
    """
    best: list[list[Found]] = [[] for _ in queries]
    for part in code_indexes(table, with_metadata=where is not None):
        ids, distances = part.search(queries, k, where=where)
        rows = ids if isinstance(ids, list) else ids.tolist()
        for place, (own, far) in enumerate(zip(rows, distances.tolist(), strict=True)):
            pairs = [p for p in zip(own, far, strict=True) if p[0] not in (-1, None)]
            best[place] = merged([best[place], pairs], k)
    return best


def code_indexes(
    table: CodeTable, *, with_metadata: bool, fragments: list[int] | None = None
) -> Iterator[ExhaustiveIndex]:
    """The rows of a table as one exhaustive index after the other, in order."""
    coder = table.coder
    roots = Roots()
    for batch in code_batches(table, with_metadata=with_metadata, fragments=fragments):
        index = ExhaustiveIndex(coder)
        index.roots = roots
        names = [n for n in batch.schema.names if n not in (ID, CODE)]
        metadata = batch.select(names) if names else None
        index.add_codes(codes_of(batch, coder), ids_of(batch), metadata)
        yield index


def code_batches(
    table: CodeTable, *, with_metadata: bool, fragments: list[int] | None = None
) -> Iterator[Any]:
    """Ids, codes and, if asked for, metadata: tables of so many rows, in order."""
    import pyarrow

    columns = [ID, CODE, *(table.metadata_columns if with_metadata else [])]
    chosen = None
    if fragments is not None:
        chosen = [table.dataset.get_fragment(number) for number in fragments]
    scanner = table.dataset.scanner(
        columns=columns, fragments=chosen, batch_size=8192, scan_in_order=True
    )
    held: list[Any] = []
    rows = 0
    for batch in scanner.to_batches():
        held.append(batch)
        rows += len(batch)
        if rows >= ROWS_AT_ONCE:
            yield pyarrow.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pyarrow.Table.from_batches(held)


def codes_of(batch: Any, coder: Coder) -> Tensor:
    """Codes (n, M) of a table's rows."""
    column = batch[CODE].combine_chunks()
    width = column.type.list_size
    packed = column.flatten().to_numpy().reshape(-1, width)
    codes = unpack(packed, coder.num_codebooks, coder.codebook_size)
    return torch.from_numpy(codes.astype(np.int64))


def ids_of(batch: Any) -> Any:
    """Ids of a table's rows: int64 (n,) or n strings."""
    column = batch[ID]
    if str(column.type) == "string":
        return column.to_pylist()
    return torch.from_numpy(column.to_numpy().astype(np.int64))


def described_rows(
    table: CodeTable, results: list[list[Found]]
) -> dict[Any, dict[str, Any]]:
    """Metadata of all rows that were found, by id."""
    ids = list(dict.fromkeys(one for found in results for one, _ in found))
    if not ids:
        return {}
    columns = [ID, *table.metadata_columns]
    rows = table.dataset.to_table(columns=columns, filter=among(ids)).to_pylist()
    return {row.pop(ID): row for row in rows}
