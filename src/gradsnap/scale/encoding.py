"""The job of ``gradsnap encode``: a source becomes rows of a table, shard by shard."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gradsnap.errors import InputError
from gradsnap.inference.model import Model
from gradsnap.scale.encoder import EncodingJob, ShardEncoder, Written, total_rows
from gradsnap.scale.error_table import append_errors, forget_errors
from gradsnap.scale.packed_model import PackedModel
from gradsnap.scale.shard import Shard, Source
from gradsnap.scale.table import (
    ID,
    CodeTable,
    create_table,
    facts_of,
    table_exists,
)
from gradsnap.scale.workers import Workers

COMMIT_SECONDS = 10.0
"""Between two commits: each writes the list of all fragments again."""

Tell = Callable[["Progress"], None]


class Progress(NamedTuple):
    """How far a job is."""

    shards: int
    """Done, those of earlier runs among them."""
    of_shards: int
    rows: int
    """Written by this run."""
    bad: int
    known: int
    """Items that were left out because the table has them."""
    seconds: float
    begun_at: int = 0
    """Shards that were done before this run."""

    @property
    def seconds_left(self) -> float | None:
        """By the rate so far; None before the first shard."""
        own = self.shards - self.begun_at
        if own == 0:
            return None
        return self.seconds / own * (self.of_shards - self.shards)


def open_for(
    model: Model, source: Source, word: str, out: str, half: bool
) -> CodeTable:
    """The table to write to: new, or one that the same codebooks made.

    Args:
        model: that encodes.
        source: what is encoded.
        word: what the user calls it.
        out: address of the table.
        half: whether rows have half-precision embeddings.

    Raises:
        InputError: the table is of other codebooks or columns.
    """
    if not table_exists(out):
        facts = facts_of(model.coder, model.folder, word)
        return create_table(out, model.coder, facts, source.schema(), half)
    table = CodeTable(out)
    table.check_coder(model.coder)
    if table.has_embeddings != half:
        have = "has" if table.has_embeddings else "has no"
        raise InputError(f"{out} {have} embeddings: --keep-half is for all rows")
    kind, given = table.dataset.schema.field(ID).type, source.schema().field(ID).type
    if kind != given:
        raise InputError(f"the ids of {out} are {kind}, those of {word} are {given}")
    return table


def encode_source(
    packed: PackedModel,
    source: Source,
    table: CodeTable,
    workers: Workers,
    *,
    add: bool = False,
    tell: Tell | None = None,
) -> Progress:
    """Encodes what is not written yet; killed at any moment, it can be called again.

    Args:
        packed: the model.
        source: what is encoded.
        table: where to; it grows by commits of whole shards, in the order of the
            source, whoever does the work.
        workers: who does it.
        add: whether the table may have rows of other sources; items whose ids it has
            are left out then.
        tell: is told how far it is, now and then.

    Raises:
        InputError: the table has rows of another source, or the source has changed,
            and ``add`` does not say that this is meant.
    """
    shards = source.shards()
    written = table.written_shards()
    pending = [shard for shard in shards if shard.key not in written]
    if not add:
        _check_same(written, shards, table.address)
    version = _version_of_known(table) if add and pending else None
    forget_errors(table.address, (shard.key for shard in pending))
    job = EncodingJob(packed, source, table.address, total_rows(shards), version)
    begun = len(shards) - len(pending)
    now = Progress(begun, len(shards), 0, 0, 0, 0.0, begun)
    results = workers.run(ShardEncoder, job, pending) if pending else iter(())
    started = time.monotonic()
    for group in _groups(results):
        _commit(table, group)
        now = now._replace(
            shards=now.shards + len(group),
            rows=now.rows + sum(one.rows for one in group),
            bad=now.bad + sum(len(one.bad) for one in group),
            known=now.known + sum(one.known for one in group),
            seconds=time.monotonic() - started,
        )
        if tell is not None:
            tell(now)
    return now


def _groups(results: Iterator[Written]) -> Iterator[list[Written]]:
    """Results that one commit takes: those of some seconds, and the rest."""
    group: list[Written] = []
    last = time.monotonic()
    for one in results:
        group.append(one)
        if time.monotonic() - last >= COMMIT_SECONDS:
            yield group
            group, last = [], time.monotonic()
    if group:
        yield group


def _commit(table: CodeTable, group: Sequence[Written]) -> None:
    """Errors first: those of a shard without rows are forgotten and found again."""
    append_errors(table.address, [(one.shard, bad) for one in group for bad in one.bad])
    fragments = [words for one in group for words in one.fragments]
    if fragments:
        table.append(fragments)


def _check_same(written: set[int], shards: Sequence[Shard], address: str) -> None:
    foreign = len(written - {shard.key for shard in shards})
    if foreign:
        raise InputError(
            f"{address} holds {foreign} shards of another source, or of this one as it "
            "was before: --add adds what the table does not have yet"
        )


def _version_of_known(table: CodeTable) -> int | None:
    """The version whose ids are known, its ids indexed; None for an empty table."""
    if len(table) == 0:
        return None
    table.dataset.create_scalar_index(ID, "BTREE", replace=True)
    return int(table.dataset.latest_version)
