"""An IVF_PQ index in a Lance table, with our codebooks: parts built apart, one commit.

Lance learns codebooks of its own unless it is given some, and says nothing of it. So
every part is read back, and one that holds other codebooks than ours is refused.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gradsnap.coders import Coder
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.errors import InputError
from gradsnap.export.lance import product_form_for_lance
from gradsnap.extras import require_lance
from gradsnap.index.inverted import InvertedIndex
from gradsnap.places import place_of
from gradsnap.scale.index_parts import BuiltPart, PartNotes
from gradsnap.scale.sampling import sampled_embeddings
from gradsnap.scale.stored_coder import read_coder, write_coder
from gradsnap.scale.table import EMBEDDING, CodeTable
from gradsnap.scale.workers import Workers

Array = NDArray[Any]

NAME = "gradsnap"
PART_ROWS = 1_048_576
"""Rows of a part, rounded up to whole fragments: a search asks every part."""
LISTS = "_gradsnap/lists.npy"
LIST_CODER = "_gradsnap/residuals.safetensors"
SAMPLE = 65_536


class Lists(NamedTuple):
    """Around what a table's rows are listed, and what codes the rest."""

    centroids: Array
    """float32 (lists, dim), as the codebooks see embeddings."""
    coder: Coder
    """Of what centroids leave: the table's own where the one centroid is zero."""


class PartPlan(NamedTuple):
    """What a worker has to know to build a part."""

    address: str
    version: int
    centroids: Array
    codebooks: Array
    """float32 (M, K, width)."""

    @property
    def key(self) -> str:
        """Differs where centroids or codebooks do."""
        whole = self.centroids.tobytes() + self.codebooks.tobytes()
        return hashlib.sha256(whole).hexdigest()


class IndexFacts(NamedTuple):
    """What came of it."""

    parts: int
    """New ones."""
    rows: int
    """In the new parts."""
    lists: int


def index_table(
    table: CodeTable, workers: Workers, lists: int | None = None
) -> IndexFacts:
    """Indexes the rows that are in no part yet; the others are not touched.

    Killed at any moment, it can be called again: parts that were built are taken up,
    and one commit publishes all.

    Args:
        table: with embeddings, its newest version.
        workers: who builds parts.
        lists: None for one list around zero and the table's own codebooks, or for the
            lists that the index has already. A number learns so many centroids of a
            sample, and a product quantizer of what they leave: Lance codes residuals.

    Raises:
        InputError: Lance cannot hold such codes, there are no embeddings, or the index
            that is there has other lists.
    """
    if not table.has_embeddings:
        raise InputError(
            f"{table.address} has no embeddings, of which Lance makes its codes: "
            "encode with --keep-half, or make an index folder with --out"
        )
    product_form_for_lance(table.coder)
    chosen = _lists(table, lists)
    form = product_form_for_lance(chosen.coder)
    codebooks = np.ascontiguousarray(form.codebooks.numpy())
    plan = PartPlan(table.address, table.dataset.version, chosen.centroids, codebooks)
    notes = PartNotes(place_of(table.address), plan.key)
    parts = _parts(_groups(table), plan, workers, notes)
    if parts:
        table.dataset.commit_existing_index_segments(
            NAME, EMBEDDING, [one.part for one in parts]
        )
    notes.forget()
    rows = sum(one.rows for one in parts)
    return IndexFacts(len(parts), rows, len(chosen.centroids))


def _parts(
    groups: list[list[int]], plan: PartPlan, workers: Workers, notes: PartNotes
) -> list[BuiltPart]:
    """A part of each group of fragments: an earlier run's, or built now."""
    known = [notes.found(group) for group in groups]
    pending = [g for g, one in zip(groups, known, strict=True) if one is None]
    made = [one for one in known if one is not None]
    for built in workers.run(PartBuilder, plan, pending) if pending else ():
        notes.note(built)
        made.append(built)
    return made


def stored_lists(table: CodeTable) -> Lists | None:
    """Those of the index of a table; None where there is none."""
    place = place_of(table.address)
    if not has_index(table):
        return None
    if not place.below(LISTS).is_file:
        return Lists(np.zeros((1, table.coder.dim), np.float32), table.coder)
    centroids = np.frombuffer(place.below(LISTS).read(), np.float32)
    coder = read_coder(place.below(LIST_CODER))
    return Lists(centroids.reshape(-1, coder.dim), coder)


def has_index(table: CodeTable) -> bool:
    """Whether Lance has an index of ours in this version of the table."""
    return any(one.name == NAME for one in table.dataset.describe_indices())


class PartBuilder:
    """Builds parts of an index, one after the other.

    Args:
        plan: what all parts share.
    """

    def __init__(self, plan: PartPlan) -> None:
        self.plan = plan
        self.dataset = require_lance().dataset(plan.address, version=plan.version)

    def __call__(self, fragments: Sequence[int]) -> BuiltPart:
        """A part of some fragments, which nobody sees yet; and how many rows it has.

        Raises:
            InputError: Lance did not take our codebooks.
        """
        count, size, _ = self.plan.codebooks.shape
        part = self.dataset.create_index_uncommitted(
            EMBEDDING,
            "IVF_PQ",
            name=NAME,
            metric="L2",
            replace=True,
            num_partitions=len(self.plan.centroids),
            num_sub_vectors=count,
            num_bits=size.bit_length() - 1,
            ivf_centroids=self.plan.centroids.astype(np.float16),
            pq_codebook=self.plan.codebooks.astype(np.float16),
            fragment_ids=list(fragments),
        )
        return BuiltPart(part, check_part(self.plan, part.uuid))


def check_part(plan: PartPlan, uuid: str) -> int:
    """Reads back the codebooks of a part; how many rows it has.

    Raises:
        InputError: they are not ours.
    """
    from lance.file import LanceFileReader

    file = f"{plan.address}/_indices/{uuid}/auxiliary.idx"
    reader = LanceFileReader(file)
    words = reader.metadata().schema.metadata[b"storage_metadata"]
    place = json.loads(json.loads(words)[0])["codebook_position"]
    stored = bytes(reader.read_global_buffer(place))
    if not stored.endswith(plan.codebooks.astype(np.float16).tobytes()):
        raise InputError(
            f"Lance did not keep our codebooks in {file}: the index is not committed. "
            "This version of pylance may train its own; 14.0.2 is known to keep them"
        )
    return int(reader.num_rows())


def _lists(table: CodeTable, lists: int | None) -> Lists:
    """The lists of the index that is there, or new ones."""
    known = stored_lists(table)
    if known is not None:
        if lists not in (None, len(known.centroids)):
            raise InputError(
                f"{table.address} is indexed with {len(known.centroids)} lists, and "
                f"its parts must be alike; got {lists}"
            )
        return known
    place = place_of(table.address)
    if lists is None:
        place.below(LISTS).remove()  # of a job that was killed before its commit
        zero = np.zeros((1, table.coder.dim), np.float32)
        return Lists(zero, table.coder)
    made = _learned(table, lists)
    place.below(LISTS).write(made.centroids.tobytes())
    write_coder(made.coder, place.below(LIST_CODER))
    return made


def _learned(table: CodeTable, lists: int) -> Lists:
    """Centroids of a sample, and a quantizer of what they leave."""
    own = table.coder
    rows = sampled_embeddings(table, SAMPLE)
    coder = ProductQuantizer(own.dim, own.num_codebooks, own.codebook_size)
    index = InvertedIndex(coder, num_lists=min(lists, len(rows)), residual=True)
    index.fit(torch.from_numpy(rows))
    return Lists(index._require_centroids().numpy(), coder)


def _groups(table: CodeTable) -> list[list[int]]:
    """Fragments that are in no part yet, so many rows together."""
    covered = {
        number
        for one in table.dataset.describe_indices()
        if one.name == NAME
        for part in one.segments
        for number in part.fragment_ids
    }
    groups: list[list[int]] = []
    rows = PART_ROWS
    for fragment in table.dataset.get_fragments():
        if fragment.fragment_id in covered:
            continue
        if rows >= PART_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(fragment.fragment_id)
        rows += fragment.count_rows()
    return groups
