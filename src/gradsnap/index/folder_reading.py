"""An index folder read: its manifest, the checks, and the index it names.

Files never change once a manifest names them, so opening maps what is large.
"""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file

from gradsnap.coders import Coder, load_coder
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import check_finite, read_json, replacing
from gradsnap.index.blocks import check_sample
from gradsnap.index.index import Index
from gradsnap.index.rerank import HalfPrecision, LongerCode, Refiner
from gradsnap.index.roots import Roots
from gradsnap.index.schema import check_manifest, check_segment
from gradsnap.index.segment_files import open_segment

MANIFEST = "manifest.json"
FORMAT = "gradsnap-index"
VERSION = 1

SMALL = 2**22
"""Files up to 4 MiB are compared with their checksum when opened; of larger ones a few
blocks, and all by ``verify``: opening an index must not read all of it."""

ATTEMPTS = 5
"""Tries to open a folder that a writer changes meanwhile."""

Manifest = dict[str, Any]


class Origin(NamedTuple):
    """Where an index was loaded from or last saved to, and in which state."""

    folder: Path
    manifest: Manifest

    def verify(self) -> None:
        """Compares every file with its checksum."""
        check_files(self.folder, self.manifest, every_byte=True)


def load_index(
    path: str | os.PathLike[str],
    coder: Coder | None = None,
    *,
    verify: bool = False,
) -> Index:
    """Opens an index folder; large files are mapped, and read when they are searched.

    Args:
        path: the folder.
        coder: the model's; an index made with another one is refused. The index has a
            copy of its own, which is used if none is given.
        verify: compare every file with its checksum. Otherwise all sizes, the
            checksums of files up to 4 MiB, and a few blocks of larger ones.

    Raises:
        InputError: there is no index, or it was made with another coder.
        FileFormatError: a file is missing, truncated, changed or of another version.
    """
    folder = Path(path)
    for attempt in range(ATTEMPTS):
        content = read_manifest(folder)
        try:
            check_files(folder, content, every_byte=verify)
            return _open(folder, content, coder)
        except (FileNotFoundError, FileFormatError):
            replaced = read_manifest(folder)["token"] != content["token"]
            if not replaced or attempt == ATTEMPTS - 1:
                raise
    raise FileFormatError(f"{folder} changes faster than it can be opened")


def _open(folder: Path, content: Manifest, given: Coder | None) -> Index:
    coder = _coder(folder, content, given)
    try:
        index = _rebuild(folder, content, coder)
        for entry in content["segments"]:
            check_segment(folder, content, entry, index)
            index.items.segments.append(open_segment(folder, entry))
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{folder} does not fit together: {error!r}") from error
    index.items.next_id = content["next_id"]
    index.fingerprint = content["fingerprint"]
    index.notes = dict(content.get("notes", {}))
    index.roots = Roots.from_json(content.get("roots", {}))
    index.origin = Origin(folder.resolve(), content)
    return index


def _coder(folder: Path, content: Manifest, given: Coder | None) -> Coder | None:
    parts = content["parts"]
    file = parts.get("coder", parts.get("quantizer"))  # its name in older folders
    if file is None:
        return None
    stored = load_coder(folder / file)
    expected = content["fingerprint"] or stored.fingerprint()
    if stored.fingerprint() != expected:
        raise FileFormatError(f"{folder}: its coder is not that of its codes")
    if given is not None and given.fingerprint() != expected:
        raise InputError(
            f"{folder} was made with another coder (fingerprint {expected[:12]}) than "
            f"the {type(given).__name__} given ({given.fingerprint()[:12]}): index the "
            "vectors again, or open it with the coder it was made with"
        )
    return stored if given is None else given


def _rebuild(folder: Path, content: Manifest, coder: Coder | None) -> Index:
    """The index without its items."""
    from gradsnap.index import INDEXES  # which lists what this module is a part of

    kind, parts = content["kind"], content["parts"]
    if kind not in INDEXES:
        raise FileFormatError(
            f"{folder} is an index of kind {kind!r}; known: {', '.join(INDEXES)}"
        )
    refiner = _refiner(folder, content, coder)
    try:
        index = INDEXES[kind].from_config(coder, content["config"], refiner)
    except FileFormatError as error:
        raise FileFormatError(f"{folder} cannot be opened: {error}") from error
    if "state" in parts:
        try:
            state = load_file(folder / parts["state"])
            check_finite(state, str(folder / parts["state"]))
            index.restore(state)
        except SafetensorError as error:
            raise FileFormatError(f"{folder / parts['state']}: {error}") from error
    return index


def _refiner(folder: Path, content: Manifest, coder: Coder | None) -> Refiner | None:
    if content["refiner"] == "half" and coder is not None:
        return HalfPrecision(coder.dim)
    if content["refiner"] == "code":
        return LongerCode(load_coder(folder / content["parts"]["refiner"]))
    return None


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
    content = read_json(path)
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
    check_manifest(path, content)
    return content


def file_entry(path: Path) -> dict[str, Any]:
    """Size and checksum of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def check_files(folder: Path, content: Manifest, *, every_byte: bool = False) -> None:
    """Compares sizes, the checksums of small files or of all, and some blocks.

    Raises:
        FileFormatError: a file is missing, truncated or changed.
    """
    blocks = content.get("blocks", {})
    for name, entry in content["files"].items():
        path = folder / name
        size = _size_of(path)
        if size != entry["bytes"]:
            raise FileFormatError(
                f"{path} is truncated or changed: {size} bytes, "
                f"expected {entry['bytes']}"
            )
        if every_byte or size <= SMALL:
            if file_entry(path) != entry:
                raise FileFormatError(f"{path} was changed: its checksum does not fit")
        elif name in blocks:  # which older folders lack
            check_sample(path, blocks[name], size)


def _size_of(path: Path) -> int:
    """Bytes of a file of ours; links, which we never make, would lead elsewhere."""
    try:
        known = path.lstat()
    except OSError as error:
        raise FileFormatError(f"{path} is missing ({error.strerror})") from error
    if not stat.S_ISREG(known.st_mode):
        raise FileFormatError(f"{path} is a link, a pipe or a folder, and no file")
    return known.st_size


def write_manifest(folder: Path, content: Manifest) -> None:
    """Replaces the manifest: the moment at which a save takes place."""
    content = {"format": FORMAT, "version": VERSION, **content}
    whole = content | {"sha256": _digest(content)}
    with replacing(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(whole, indent=1), encoding="utf-8")


def _digest(content: Manifest) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
