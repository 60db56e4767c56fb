"""Searching tables and shards, as ``gradsnap search`` asks for it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from gradsnap.collection.queries import Query
    from gradsnap.inference.model import Model
    from gradsnap.scale.merging import Found
    from gradsnap.scale.table import CodeTable

Row = dict[str, Any]


class Asked(NamedTuple):
    """Options of a search that tables and shards take."""

    k: int
    where: str | None
    probes: int | None
    model: str | None
    network_from: str | None
    on: str | None
    partial: float | None
    version: int | None
    by_codes: bool


class Results(NamedTuple):
    """What is shown."""

    found: list[tuple[str, list[Row]]]
    """Rows of each query, by its name."""
    missing: dict[str, str]
    """Shards that did not answer, and why."""


def is_large(index: str) -> bool:
    """Whether it is a table or a folder of shards."""
    from gradsnap.scale.kinds import is_sharded, is_table

    return is_table(index) or is_sharded(index)


def refuse(options: dict[str, Any], what: str) -> None:
    """Refuses options that are not for what is searched.

    Raises:
        InputError: one of them is given.
    """
    from gradsnap.errors import InputError

    for flag, value in options.items():
        if value not in (None, False, [], ()):
            raise InputError(f"{flag} is for {what}")


def search_large(index: str, words: list[str], asked: Asked) -> Results:
    """The nearest items of a table or of shards.

    Raises:
        InputError: an option is given that is for the other.
    """
    from gradsnap.scale.kinds import is_table

    if is_table(index):
        refuse({"--on": asked.on, "--partial": asked.partial}, "a folder of shards")
        return search_table(index, words, asked)
    given = {"--version": asked.version, "--by-codes": asked.by_codes}
    refuse(given, "a .lance table")
    return search_shards(Path(index), words, asked)


def search_table(address: str, words: list[str], asked: Asked) -> Results:
    """The nearest rows of a table."""
    from gradsnap.scale.lance_index import has_index
    from gradsnap.scale.table import CodeTable
    from gradsnap.scale.table_search import (
        described_rows,
        search_by_codes,
        search_by_index,
    )

    table = CodeTable(address, asked.version)
    model = _model_of_table(table, asked)
    queries, rows = _read(words, model)
    if has_index(table) and not (asked.by_codes or asked.where):
        found = search_by_index(table, rows, asked.k, asked.probes)
    else:
        found = search_by_codes(table, rows, asked.k, asked.where)
    return Results(_rows(queries, found, described_rows(table, found)), {})


def search_shards(folder: Path, words: list[str], asked: Asked) -> Results:
    """The nearest items of all shards of a folder."""
    from gradsnap.index import load_index
    from gradsnap.inference.model import model_of
    from gradsnap.scale.shard_folders import shards_in
    from gradsnap.scale.sharded import Ask, opened_shards

    told = shards_in(folder)
    some = next(one for one in told["shards"] if (folder / one).is_dir())
    model = model_of(load_index(folder / some), asked.model, asked.network_from)
    queries, rows = _read(words, model)
    with opened_shards(folder, asked.on) as shards:
        ask = Ask(rows.numpy(), asked.k, asked.where, asked.probes)
        answer = shards.search(ask, asked.partial)
    found = _rows(queries, answer.results, answer.known)
    return Results(found, answer.missing)


def _read(words: list[str], model: "Model") -> "tuple[list[Query], Tensor]":
    """Queries, and their vectors (q, dim)."""
    import torch

    from gradsnap.collection.queries import read_queries
    from gradsnap.errors import InputError

    queries = list(read_queries(words, model, lambda: sys.stdin.buffer.read()))
    vectors = [one.vector for one in queries if one.vector is not None]
    if not vectors:
        raise InputError("name a query: an image, a folder, or a file of vectors")
    return queries, torch.stack(vectors)


def _model_of_table(table: "CodeTable", asked: Asked) -> "Model":
    """The model a table was made with, or its coder alone for vectors."""
    from torch import nn

    from gradsnap.errors import InputError
    from gradsnap.inference.model import Model, load

    place = asked.model or table.facts.model
    if place is None:
        return Model(nn.Identity(), table.coder)
    if asked.model is None and not Path(place).is_dir():
        raise InputError(
            f"the model of {table.address} is not at {place} any more: name it with "
            "--model"
        )
    model = load(place, asked.network_from)
    table.check_coder(model.coder)
    return model


def _rows(
    queries: "list[Query]",
    found: "list[list[Found]]",
    known: dict[Any, dict[str, Any]],
) -> list[tuple[str, list[Row]]]:
    return [
        (
            query.name,
            [{"id": one, "distance": far, **known[one]} for one, far in pairs],
        )
        for query, pairs in zip(queries, found, strict=True)
    ]
