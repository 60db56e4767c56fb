"""Parts of an index that are built and not committed yet, so that a killed job goes on.

Each is noted beside the table as soon as it is built. Notes of the same codebooks and
fragments are taken up by the next run, which builds the rest and commits all at once.
"""

import base64
import datetime
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gradsnap.extras import require_lance
from gradsnap.places import Place

NOTES = "_gradsnap/parts"


class BuiltPart(NamedTuple):
    """A part that nobody sees yet."""

    part: Any
    """Lance's description of it."""
    rows: int


@dataclass(frozen=True)
class PartNotes:
    """The notes of one table and one choice of codebooks.

    Args:
        table: its place.
        key: differs where centroids or codebooks do.
    """

    table: Place
    key: str

    def note(self, built: BuiltPart) -> None:
        """Remembers a part."""
        self._file(built.part.fragment_ids).write(_words(built).encode())

    def found(self, fragments: Sequence[int]) -> BuiltPart | None:
        """The part of exactly these fragments; None if none was built."""
        file = self._file(fragments)
        if not file.is_file:
            return None
        try:
            built = _built(json.loads(file.read()))
        except (ValueError, KeyError, TypeError):
            return None  # half a note, from a kill
        folder = self.table.below(f"_indices/{built.part.uuid}")
        there = all(folder.below(one.path).is_file for one in built.part.files)
        return built if there else None

    def forget(self) -> None:
        """Removes all notes: what they say is committed."""
        folder = self.table.below(NOTES)
        if folder.is_folder:
            folder.filesystem.delete_dir(folder.path)

    def _file(self, fragments: Sequence[int]) -> Place:
        words = f"{self.key} {sorted(fragments)}"
        name = hashlib.sha256(words.encode()).hexdigest()[:32]
        return self.table.below(f"{NOTES}/{name}.json")


def _words(built: BuiltPart) -> str:
    part = built.part
    kind, details = part.index_details or ("", b"")
    return json.dumps(
        {
            "uuid": part.uuid,
            "name": part.name,
            "fields": list(part.fields),
            "dataset_version": part.dataset_version,
            "fragment_ids": sorted(part.fragment_ids),
            "index_version": part.index_version,
            "created_at": part.created_at and part.created_at.isoformat(),
            "files": [[one.path, one.size_bytes] for one in part.files or ()],
            "index_details": [kind, base64.b64encode(details).decode()],
            "rows": built.rows,
        }
    )


def _built(told: dict[str, Any]) -> BuiltPart:
    from lance.dataset import Index, IndexFile

    require_lance()
    kind, details = told.pop("index_details")
    rows, created = int(told.pop("rows")), told.pop("created_at")
    files = [IndexFile(path, size) for path, size in told.pop("files")]
    told["fragment_ids"] = set(told["fragment_ids"])
    part = Index(
        **told,
        created_at=created and datetime.datetime.fromisoformat(created),
        files=files,
        index_details=(kind, base64.b64decode(details)) if kind else None,
    )
    return BuiltPart(part, rows)
