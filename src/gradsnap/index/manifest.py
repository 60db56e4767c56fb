"""The manifest of an index folder: what there is, and how to tell it is unchanged."""

import hashlib
import json
from pathlib import Path
from typing import Any

from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import replacing

MANIFEST = "manifest.json"
FORMAT = "gradsnap-index"
VERSION = 1

SMALL = 2**22
"""Files up to 4 MiB are compared with their checksum when opened, larger ones by
``verify``: opening an index must not read all of it."""

Manifest = dict[str, Any]

FIELDS = {
    "token": str,
    "generation": int,
    "kind": str,
    "config": dict,
    "next_id": int,
    "segments": list,
    "files": dict,
}


def write_manifest(folder: Path, content: Manifest) -> None:
    """Replaces the manifest: the moment at which a save takes place."""
    content = {"format": FORMAT, "version": VERSION, **content}
    whole = content | {"sha256": _digest(content)}
    with replacing(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(whole, indent=1), encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index folder.

    Raises:
        InputError: there is no such folder, or it is not an index.
        FileFormatError: the manifest is truncated, changed or of another version.
    """
    path = folder / MANIFEST
    if not path.is_file():
        what = "is not an index: it has no manifest.json" if folder.is_dir() else ""
        raise InputError(f"{folder} {what}" if what else f"there is no index {folder}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise FileFormatError(f"{path} is truncated or not JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileFormatError(f"{path} is not the manifest of an index")
    if content.get("version") != VERSION:
        raise FileFormatError(
            f"{path} has format version {content.get('version')!r}; this gradsnap "
            f"reads {VERSION}"
        )
    given = content.pop("sha256", None)
    if given != _digest(content):
        raise FileFormatError(f"{path} was changed: its checksum does not fit")
    for field, kind in FIELDS.items():
        if not isinstance(content.get(field), kind):
            raise FileFormatError(f"{path} lacks {field!r}")
    return content


def file_entry(path: Path) -> dict[str, Any]:
    """Size and checksum of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def check_files(folder: Path, content: Manifest, *, every_byte: bool = False) -> None:
    """Compares sizes, and the checksums of small files or of all.

    Raises:
        FileFormatError: a file is missing, truncated or changed.
    """
    for name, entry in content["files"].items():
        path = folder / name
        if Path(name).name != name:
            raise FileFormatError(f"{folder}: the manifest names a file {name!r}")
        if not path.is_file():
            raise FileFormatError(f"{path} is missing")
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise FileFormatError(
                f"{path} is truncated or changed: {size} bytes, "
                f"expected {entry['bytes']}"
            )
        if (every_byte or size <= SMALL) and file_entry(path) != entry:
            raise FileFormatError(f"{path} was changed: its checksum does not fit")


def _digest(content: Manifest) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
