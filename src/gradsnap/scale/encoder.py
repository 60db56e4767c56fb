"""What a worker does to a shard: read, decode, embed, encode, write a fragment."""

import functools
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.coders.packing import pack
from gradsnap.data import ReadAhead
from gradsnap.data.images import ImageOptions
from gradsnap.errors import InputError
from gradsnap.extras import require_lance
from gradsnap.index.faiss_forms import product_form
from gradsnap.inference.embedding import AT_ONCE, VALUES_AT_ONCE, evaluating
from gradsnap.inference.engines import Engine, device_of, engine_for
from gradsnap.scale.decoding import BadItem, Batch, Decoder
from gradsnap.scale.packed_model import PackedModel
from gradsnap.scale.shard import Chunk, Shard, Source
from gradsnap.scale.table import CODE, EMBEDDING, ID, SHARD, CodeTable

MANY = 10**9
"""Items of a source that does not know how many it has."""


class Written(NamedTuple):
    """What became of a shard."""

    shard: int
    """Its key."""
    fragments: tuple[str, ...]
    """What was written, as JSON, for the commit."""
    rows: int
    bad: tuple[BadItem, ...]
    known: int
    """Items that the table had before."""


@dataclass(frozen=True)
class EncodingJob:
    """All a worker has to know, small enough to send to each."""

    model: PackedModel
    source: Source
    table: str
    """Its address."""
    total: int
    """Items of the whole source, by which the engine is chosen."""
    skip_known: int | None = None
    """The version of the table whose ids are left out; None where none are."""


class ShardEncoder:
    """Holds the model once, and encodes one shard after the other.

    Args:
        job: what it works on.
    """

    def __init__(self, job: EncodingJob) -> None:
        self.job = job
        self.model = job.model.load()
        self.schema = CodeTable(job.table).dataset.schema
        self.coder = self.model.coder
        self._engine: Engine | None = None

    def __call__(self, shard: Shard) -> Written:
        """Writes the rows of a shard as fragments that nobody sees yet."""
        import pyarrow as arrow

        noted = _Noted([])
        rows = self._rows(shard, noted)
        first = next(rows, None)
        if first is None:
            return Written(shard.key, (), 0, tuple(noted.bad), noted.known)
        reader = arrow.RecordBatchReader.from_batches(
            self.schema, itertools.chain([first], rows)
        )
        made = require_lance().fragment.write_fragments(
            reader, self.job.table, schema=self.schema
        )
        words = tuple(json.dumps(one.to_json()) for one in made)
        count = sum(one.physical_rows for one in made)
        return Written(shard.key, words, count, tuple(noted.bad), noted.known)

    def _rows(self, shard: Shard, noted: "_Noted") -> Iterator[Any]:
        """Record batches of the table; what is left out is noted."""
        with evaluating(self.model.network):
            for batch in ReadAhead(_Batches(self, shard, noted)):
                noted.bad.extend(batch.bad)
                if len(batch.ids):
                    yield self._record_batch(shard, batch)

    def batches(self, shard: Shard, noted: "_Noted") -> Iterator[Batch]:
        """Decoded batches of a shard, without what the table knows."""
        chunks = self.job.source.read(shard)
        if self.job.skip_known is not None:
            chunks = (self._new(chunk, noted) for chunk in chunks)
        return self._decoder.batches(chunks)

    @functools.cached_property
    def _decoder(self) -> Decoder:
        spec = self.model.spec
        options = ImageOptions(side=spec.side, channels=spec.channels)
        rows = AT_ONCE
        on_cpu = device_of(self.model.network).type == "cpu"
        if self.job.source.holds_images and on_cpu and spec.side:
            values = (spec.channels or 3) * spec.side**2
            rows = max(1, min(AT_ONCE, VALUES_AT_ONCE // values))
        elif not self.job.source.holds_images:
            rows = MANY  # a chunk is a batch
        return Decoder(options, self._input_dim, rows)

    @property
    def _input_dim(self) -> int:
        """Length of vectors, where the source holds them."""
        network = self.model.network_for(torch.empty(0, self.coder.dim))
        return int(getattr(network, "input_dim", self.coder.dim))

    @functools.cached_property
    def _known_table(self) -> CodeTable:
        return CodeTable(self.job.table, self.job.skip_known)

    def _new(self, chunk: Chunk, noted: "_Noted") -> Chunk:
        known = self._known_table.known(chunk.ids)
        kept = [n for n, one in enumerate(chunk.ids) if one not in known]
        noted.known += len(chunk.ids) - len(kept)
        table = chunk.metadata
        items = chunk.items
        few = [items[n] for n in kept] if isinstance(items, list) else items[kept]
        metadata = None if table is None else table.take(kept)
        return Chunk([chunk.ids[n] for n in kept], few, metadata)

    @torch.no_grad()  # here: rows are asked for by a thread of Lance's
    def _record_batch(self, shard: Shard, batch: Batch) -> Any:
        import pyarrow as arrow

        rows = self._embedded(batch.items)
        codes = self.coder.encode(rows.to(self.coder.fitted.device)).cpu().numpy()
        columns: dict[str, Any] = {
            ID: arrow.array(batch.ids, self.schema.field(ID).type),
            SHARD: arrow.array(np.full(len(rows), shard.key)),
            CODE: _lists(pack(codes, self.coder.codebook_size), np.uint8),
        }
        if EMBEDDING in self.schema.names:
            columns[EMBEDDING] = _lists(half_precision(self.coder, rows), np.float16)
        if batch.metadata is not None:
            columns |= {n: batch.metadata[n] for n in batch.metadata.column_names}
        arrays = [_cast(columns[field.name], field.type) for field in self.schema]
        return arrow.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _embedded(self, items: Tensor) -> Tensor:
        """Embeddings (n, dim) on the CPU."""
        if self._engine is None:
            network = self.model.network_for(items)
            count = self.job.total or MANY
            self._engine = engine_for(network, count, tuple(items.shape[1:]))
        return self._engine(items).cpu()


@dataclass
class _Noted:
    """What is left out of a shard."""

    bad: list[BadItem]
    known: int = 0


@dataclass(frozen=True, eq=False)
class _Batches:
    """The batches of a shard, to be read ahead."""

    encoder: ShardEncoder
    shard: Shard
    noted: _Noted

    def __len__(self) -> int:
        return self.shard.rows  # an upper bound; nobody counts them

    def __iter__(self) -> Iterator[Batch]:
        return self.encoder.batches(self.shard, self.noted)


def half_precision(coder: Coder, rows: Tensor) -> Any:
    """Embeddings (n, dim) in half precision, rotated as the codebooks see them."""
    form = product_form(coder)
    fits = coder.dim % coder.num_codebooks == 0
    seen = rows.numpy() if form is None or not fits else form.rotate(rows)
    half = seen.astype(np.float16)
    if not np.isfinite(half).all():
        raise InputError(
            f"embeddings with numbers up to {np.abs(seen).max():g} do not fit half "
            "precision (at most 65504): encode without --keep-half"
        )
    return half


def _lists(rows: Any, kind: Any) -> Any:
    """Rows (n, width) as pyarrow's lists of one length."""
    import pyarrow as arrow

    flat = arrow.array(np.ascontiguousarray(rows, dtype=kind).ravel())
    return arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def _cast(column: Any, kind: Any) -> Any:
    import pyarrow as arrow

    if isinstance(column, arrow.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type == kind else column.cast(kind)


def total_rows(shards: Sequence[Shard]) -> int:
    """Items of all shards; 0 where one does not know."""
    counts = [shard.rows for shard in shards]
    return sum(counts) if all(counts) else 0
