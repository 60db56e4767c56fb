"""Index folders of shards, made of a table's codes, such as ``shard-0000``.

Each is a whole index folder of ours, of consecutive rows; nothing is embedded again.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import make_folder, read_tensors, write_tensors, write_text
from gradsnap.index import INDEXES, ExhaustiveIndex, Index, InvertedIndex, load_index
from gradsnap.index.inverted import lists_for
from gradsnap.registry import chosen
from gradsnap.scale.kinds import MARK, is_sharded
from gradsnap.scale.sampling import sampled_rows
from gradsnap.scale.table import CODE, CodeTable
from gradsnap.scale.table_search import code_batches, codes_of, ids_of
from gradsnap.scale.workers import Workers

PLAN = "shards.plan.json"
CENTROIDS = "shards.centroids.safetensors"
FORMAT = "gradsnap-shards-1"
SAMPLE = 65_536
SAVE_EVERY = 1_048_576
"""Rows added between two saves: what is saved is mapped, not held."""


class ShardsPlan(NamedTuple):
    """What a worker has to know to build shards."""

    address: str
    version: int
    out: str
    centroids: Tensor | None
    """Of the lists, (lists, dim); None for an exhaustive index."""
    root: str | None
    """The folder of the images, where it is on this machine."""


class Share(NamedTuple):
    """The rows of one shard."""

    name: str
    fragments: list[int]


def build_shards(
    table: CodeTable,
    out: Path,
    count: int,
    workers: Workers,
    kind: str = "exhaustive",
    lists: int | None = None,
) -> dict[str, Any]:
    """Makes index folders of a table; called again, it goes on where it was stopped.

    Args:
        table: whose codes are taken as they are.
        out: the folder that gets one index folder a shard.
        count: of shards; fewer where the table has fewer fragments.
        workers: who builds them.
        kind: exhaustive or inverted.
        lists: of an inverted index; the root of the number of rows if not given.

    Returns:
        What the finished folder says of itself.
    """
    if is_sharded(out):
        raise InputError(f"{out} exists already: name another folder")
    shares = shares_of(table, count)
    told = {
        "format": FORMAT,
        "table": table.address,
        "version": table.dataset.version,
        "fingerprint": table.facts.fingerprint,
        "kind": kind,
        "lists": lists,
        "shards": [share.name for share in shares],
    }
    make_folder(out)
    _check_plan(out / PLAN, told)
    write_text(out / PLAN, json.dumps(told, indent=2) + "\n")
    source = table.facts.source
    root = source if source is not None and os.path.isdir(source) else None
    centroids = _kept_centroids(out, table, kind, lists)
    plan = ShardsPlan(table.address, table.dataset.version, str(out), centroids, root)
    pending = [share for share in shares if not (out / share.name).exists()]
    for _ in workers.run(ShardBuilder, plan, pending) if pending else ():
        pass
    told["rows"] = [len(load_index(out / share.name)) for share in shares]
    write_text(out / MARK, json.dumps(told, indent=2) + "\n")
    for left in (PLAN, CENTROIDS):
        (out / left).unlink(missing_ok=True)
    return told


def shards_in(folder: Path) -> dict[str, Any]:
    """What a folder of shards says of itself."""
    try:
        told: dict[str, Any] = json.loads((folder / MARK).read_text("utf-8"))
        names = told["shards"]
        fine = told["format"] == FORMAT and all(
            isinstance(one, str) and one == os.path.basename(one) for one in names
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{folder / MARK} is damaged: {error!r}") from error
    if not fine:
        raise FileFormatError(f"{folder / MARK} is no list of shards")
    return told


def shares_of(table: CodeTable, count: int) -> list[Share]:
    """Consecutive fragments, with about as many rows in each share."""
    if count < 1:
        raise InputError(f"--shards must be at least 1, got {count}")
    fragments = table.dataset.get_fragments()
    total, before = len(table), 0
    groups: list[list[int]] = [[] for _ in range(count)]
    for one in fragments:
        groups[min(count - 1, before * count // max(total, 1))].append(one.fragment_id)
        before += one.count_rows()
    filled = [group for group in groups if group]
    return [Share(f"shard-{n:04d}", group) for n, group in enumerate(filled)]


class ShardBuilder:
    """Builds one shard after the other.

    Args:
        plan: what all shards share.
    """

    def __init__(self, plan: ShardsPlan) -> None:
        self.plan = plan
        self.table = CodeTable(plan.address, plan.version)
        self.coder = self.table.coder

    def __call__(self, share: Share) -> int:
        """Writes a shard beside and renames it; how many rows it has."""
        target = Path(self.plan.out) / share.name
        beside = Path(self.plan.out) / f".{share.name}.part"
        shutil.rmtree(beside, ignore_errors=True)
        index = self._empty()
        unsaved = 0
        for batch in code_batches(
            self.table, with_metadata=True, fragments=share.fragments
        ):
            self._add(index, batch)
            unsaved += len(batch)
            if unsaved >= SAVE_EVERY:
                index.save(beside)
                index, unsaved = load_index(beside), 0
        index.save(beside)
        beside.rename(target)
        return len(index)

    def _empty(self) -> Index:
        made: Index
        if self.plan.centroids is None:
            made = ExhaustiveIndex(self.coder)
        else:
            made = InvertedIndex(self.coder, centroids=self.plan.centroids)
        if self.plan.root is not None:
            made.roots = made.roots.with_folder(self.plan.root, [])
        if self.table.facts.model is not None:
            made.notes["model"] = self.table.facts.model
        return made

    def _add(self, index: Index, batch: Any) -> None:
        codes = codes_of(batch, self.coder)
        lists = None
        if isinstance(index, InvertedIndex):
            lists = index.lists_of(_decoded(self.coder, codes))
        names = self.table.metadata_columns
        metadata = batch.select(names) if names else None
        index.add_codes(codes, ids_of(batch), metadata, lists=lists)


def _check_plan(path: Path, told: dict[str, Any]) -> None:
    """Refuses to go on with shards that were begun otherwise."""
    if path.is_file() and json.loads(path.read_text("utf-8")) != told:
        raise InputError(
            f"{path.parent} was begun with another table, version, kind or number of "
            "shards: finish that, or remove the folder"
        )


def _kept_centroids(
    out: Path, table: CodeTable, kind: str, lists: int | None
) -> Tensor | None:
    """Those of a run that was killed, or new ones: all shards must have the same."""
    file = out / CENTROIDS
    if not file.is_file():
        made = _centroids(table, kind, lists)
        if made is None:
            return None
        write_tensors(file, {"centroids": made}, {"format": FORMAT})
    tensors, _ = read_tensors(file, FORMAT, "the centroids of shards")
    return tensors["centroids"]


def _centroids(table: CodeTable, kind: str, lists: int | None) -> Tensor | None:
    kinds = {name: INDEXES[name] for name in ("exhaustive", "inverted")}
    if chosen(kinds, kind, "--kind") is ExhaustiveIndex:
        if lists is not None:
            raise InputError("--lists is for an index with lists; this is exhaustive")
        return None
    count = lists_for(len(table), lists)
    index = InvertedIndex(table.coder, num_lists=count)
    index.fit(_sample(table))
    return index.state()["centroids"]


def _sample(table: CodeTable) -> Tensor:
    """Vectors of a sample of rows: what their codes say they are."""
    rows = sampled_rows(table, CODE, SAMPLE)
    return _decoded(table.coder, codes_of(rows, table.coder))


def _decoded(coder: Coder, codes: Tensor) -> Tensor:
    """What codes (n, M) say vectors are, (n, dim)."""
    if not isinstance(coder, Quantizer):
        raise InputError(
            f"lists need a quantizer, whose codes stand for vectors; the table has a "
            f"{type(coder).__name__}"
        )
    with torch.no_grad():
        return coder.decode(codes)
