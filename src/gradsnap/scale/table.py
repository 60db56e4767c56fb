"""A table of codes: a Lance data set of ids, codes, embeddings and metadata.

Beside its rows it keeps the coder that made the codes. A row says of which shard of its
source it is, so that what is written and what is known to be written are one commit.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradsnap.coders import Coder
from gradsnap.coders.packing import bytes_of
from gradsnap.errors import FileFormatError, InputError
from gradsnap.extras import require_lance
from gradsnap.index.faiss_forms import product_form
from gradsnap.places import place_of
from gradsnap.scale.stored_coder import read_coder, write_coder

ID, SHARD, CODE, EMBEDDING = "id", "shard", "code", "embedding"
RESERVED = (ID, SHARD, CODE, EMBEDDING)
WORDS = b"gradsnap"
"""The key of the schema's metadata that holds the facts of a table."""
FORMAT = "gradsnap-table-1"
CODER = "_gradsnap/coder.safetensors"


@dataclass(frozen=True)
class TableFacts:
    """What a table says of itself."""

    fingerprint: str
    """Of the coder."""
    model: str | None = None
    """The model folder; None for a coder alone."""
    source: str | None = None
    """What was encoded first."""
    rotated: bool = False
    """Whether embeddings are rotated as the coder's codebooks see them."""
    format: str = FORMAT


class CodeTable:
    """One version of a table that is there.

    Args:
        address: of the table.
        version: the newest if not given.

    Raises:
        InputError: there is no table, or not such a version of it.
        FileFormatError: it is a Lance table, and none of codes.
    """

    def __init__(self, address: str | os.PathLike[str], version: int | None = None):
        self.address = os.fspath(address)
        self.dataset = _opened(self.address, version)
        self.facts = _facts(self.dataset.schema, self.address)

    @property
    def coder(self) -> Coder:
        """The coder that made the codes."""
        found = read_coder(place_of(self.address).below(CODER))
        if found.fingerprint() != self.facts.fingerprint:
            raise FileFormatError(f"{self.address}/{CODER} was changed")
        return found

    @property
    def has_embeddings(self) -> bool:
        """Whether rows have embeddings too."""
        return EMBEDDING in self.dataset.schema.names

    @property
    def metadata_columns(self) -> list[str]:
        """Names of the columns of metadata."""
        return [one for one in self.dataset.schema.names if one not in RESERVED]

    @property
    def named(self) -> bool:
        """Whether ids are strings."""
        return str(self.dataset.schema.field(ID).type) == "string"

    def __len__(self) -> int:
        return int(self.dataset.count_rows())

    def written_shards(self) -> set[int]:
        """Keys of the shards that rows are of."""
        found: set[int] = set()
        for batch in self.dataset.to_batches(columns=[SHARD]):
            found.update(np.unique(batch.column(0).to_numpy()).tolist())
        return found

    def known(self, ids: Sequence[Any]) -> set[Any]:
        """Those of the ids that rows have."""
        found = self.dataset.to_table(columns=[ID], filter=among(ids))
        return set(found[ID].to_pylist())

    def check_coder(self, coder: Coder) -> None:
        """Refuses a coder that did not make the codes of this table."""
        own = coder.fingerprint()
        if own != self.facts.fingerprint:
            raise InputError(
                f"{self.address} was made with other codebooks "
                f"({self.facts.fingerprint[:12]}) than this model's ({own[:12]})"
            )

    def append(self, fragments: Sequence[str]) -> None:
        """Adds written fragments, given as JSON, in one commit."""
        append_fragments(self.dataset, fragments)
        self.dataset = _opened(self.address, None)


def create_table(
    address: str, coder: Coder, facts: TableFacts, given: Any, half: bool
) -> CodeTable:
    """A table without rows.

    Args:
        address: where nothing is yet.
        coder: that makes the codes.
        facts: about it.
        given: pyarrow schema of ``id`` and the metadata.
        half: whether rows have half-precision embeddings.
    """
    schema = table_schema(coder, facts, given, half)
    write_coder(coder, place_of(address).below(CODER))
    require_lance().write_dataset(schema.empty_table(), address, schema=schema)
    return CodeTable(address)


def table_schema(coder: Coder, facts: TableFacts, given: Any, half: bool) -> Any:
    """Columns of a table: id, shard, code, embedding if asked for, metadata."""
    import pyarrow as arrow

    width = bytes_of(coder.num_codebooks, coder.codebook_size)
    fields = [
        given.field(ID),
        arrow.field(SHARD, arrow.int64()),
        arrow.field(CODE, arrow.list_(arrow.uint8(), width)),
    ]
    if half:
        fields.append(arrow.field(EMBEDDING, arrow.list_(arrow.float16(), coder.dim)))
    fields += [field for field in given if field.name not in RESERVED]
    return arrow.schema(fields, {WORDS: json.dumps(asdict(facts))})


def facts_of(coder: Coder, model: Path | None, source: str) -> TableFacts:
    """What a new table says of itself."""
    form = product_form(coder)
    fits = coder.dim % coder.num_codebooks == 0
    rotated = form is not None and fits and form.matrix is not None
    folder = None if model is None else str(model.resolve())
    return TableFacts(coder.fingerprint(), folder, source, rotated)


def table_exists(address: str) -> bool:
    """Whether a finished table is there."""
    return place_of(address).below("_versions").is_folder


def newest_version(address: str) -> int | None:
    """The number of the newest version; None while there is no table."""
    if not table_exists(address):
        return None
    return int(require_lance().dataset(address).latest_version)


def append_fragments(dataset: Any, fragments: Sequence[str]) -> None:
    """Adds written fragments, given as JSON, to a data set in one commit."""
    lance = require_lance()
    made = [lance.fragment.FragmentMetadata.from_json(one) for one in fragments]
    operation = lance.LanceOperation.Append(made)
    lance.LanceDataset.commit(
        dataset.uri, operation, read_version=dataset.latest_version
    )


def _opened(address: str, version: int | None) -> Any:
    if not table_exists(address):
        raise InputError(
            f"there is no table {address}: gradsnap encode MODEL SOURCE --out "
            "TABLE.lance writes one"
        )
    try:
        return require_lance().dataset(address, version=version)
    except (ValueError, OSError) as error:
        newest = require_lance().dataset(address).latest_version
        raise InputError(
            f"{address} has no version {version}; the newest is {newest}"
        ) from error


def _facts(schema: Any, address: str) -> TableFacts:
    try:
        return TableFacts(**json.loads((schema.metadata or {})[WORDS]))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{address} is a Lance table, but not one of codes that gradsnap encode "
            "wrote"
        ) from error


def among(ids: Sequence[Any]) -> str:
    """The condition of Lance's SQL that an id is one of some.

    Example:
        >>> among(["a", "it's"]), among([3])
        ("id IN ('a', 'it''s')", 'id IN (3)')
    """
    return f"{ID} IN ({', '.join(map(_literal, ids))})"


def _literal(one: Any) -> str:
    """A value in Lance's SQL."""
    if isinstance(one, str):
        return "'" + one.replace("'", "''") + "'"
    return str(int(one))
