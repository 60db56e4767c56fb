"""An index folder written: files that never change, and a manifest that names them.

A save writes new files first and the manifest last, by a rename: whoever opens the
folder sees the index before or after, never between. Files no manifest names any more
are deleted then; readers who have them open go on reading.
"""

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradsnap.errors import BusyError, FileFormatError, GradsnapError, InputError
from gradsnap.files import HELD, flush, remove_left_behind, tensor_bytes
from gradsnap.index.blocks import block_sums
from gradsnap.index.folder_reading import (
    MANIFEST,
    SMALL,
    Manifest,
    Origin,
    file_entry,
    read_manifest,
    write_manifest,
)
from gradsnap.index.index import Index
from gradsnap.index.rerank import HalfPrecision, LongerCode, Refiner
from gradsnap.index.segment_files import (
    files_of,
    open_segment,
    rewrite_words,
    write_removed,
    write_segment,
)
from gradsnap.index.segments import Segment

LOCK = HELD

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def save_index(index: Index, path: str | os.PathLike[str]) -> None:
    """Writes the index to a folder; see ``Index.save``."""
    folder = Path(path)
    index.check_codebooks()
    try:
        if not folder.exists():
            content = _create(index, folder)
        else:
            with only_writer(folder):
                content = _replace(index, folder)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error
    index.origin = Origin(folder.resolve(), content)
    entries = content["segments"]
    index.items.segments = [
        _map_saved(folder, segment, entry)
        for segment, entry in zip(index.items.segments, entries, strict=True)
    ]


def _map_saved(folder: Path, segment: Segment, entry: dict[str, Any]) -> Segment:
    """The saved segment, mapped, so that a long stream of items leaves memory."""
    segment.restated = False
    if segment.name == entry["name"]:
        return segment
    segment.name = entry["name"]
    try:
        return open_segment(folder, entry)
    except (OSError, FileFormatError):  # another writer was faster; memory has it all
        return segment


# --- writing --------------------------------------------------------------------


def _create(index: Index, folder: Path) -> Manifest:
    parent = folder.parent
    if not parent.is_dir():
        raise InputError(f"cannot write {folder}: the folder {parent} does not exist")
    start = f".{folder.name[:64]}."
    remove_left_behind(parent, start)
    temporary = Path(tempfile.mkdtemp(dir=parent, prefix=start))
    try:
        with only_writer(temporary):
            content = _write(index, temporary, None)
            temporary.chmod(0o777 & ~_umask())
            temporary.rename(folder)
        flush(parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return content


def _replace(index: Index, folder: Path) -> Manifest:
    """Writes into an index folder: what is new, or all of another index."""
    current = read_manifest(folder)
    origin = index.origin
    ours = origin is not None and origin.folder == folder.resolve()
    if origin is not None and ours and origin.manifest["token"] != current["token"]:
        raise BusyError(
            f"cannot write {folder}: another writer has changed it since this index "
            "was loaded; load it again and repeat what you did, and nothing is lost"
        )
    try:
        content = _write(index, folder, current, keep=ours)
    except BaseException:
        # The new manifest may stand already, its flush alone having failed.
        with contextlib.suppress(GradsnapError):
            _delete_unnamed(folder, read_manifest(folder))
        raise
    _delete_unnamed(folder, content)
    return content


def _write(
    index: Index, folder: Path, current: Manifest | None, *, keep: bool = False
) -> Manifest:
    """Writes files, then the manifest; with ``keep`` those there are stay."""
    generation = 1 + (current["generation"] if current else 0)
    stem = f"{generation:06d}-{secrets.token_hex(4)}"
    old = current if current is not None and keep else None
    parts = old["parts"] if old else _write_parts(index, folder, stem)
    known = {e["name"]: e for e in old["segments"]} if old else {}
    entries = []
    for number, segment in enumerate(index.items.segments):
        entry = known.get(segment.name)
        if entry is None:
            entry = write_segment(folder, f"{stem}.{number}", segment)
        elif segment.restated:
            entry = rewrite_words(folder, f"{stem}.{number}", segment, entry)
        entry = {key: value for key, value in entry.items() if key != "removed"}
        if len(segment.removed):
            file = f"{stem}.{number}.removed"
            entry["removed"] = write_removed(folder, file, segment)
        entries.append(entry)
    names = [*parts.values(), *(name for entry in entries for name in files_of(entry))]
    files = {
        name: old["files"][name]
        if old and name in old["files"]
        else _seal(folder, name)
        for name in names
    }
    content: Manifest = {
        "token": secrets.token_hex(8),
        "generation": generation,
        "kind": index.kind,
        "config": index.config(),
        "notes": index.notes,
        "roots": index.roots.to_json(),
        "fingerprint": index.fingerprint,
        "next_id": index.items.next_id,
        "refiner": _refiner_kind(index.refiner),
        "parts": parts,
        "segments": entries,
        "files": files,
        "blocks": _blocks(folder, files, old),
    }
    flush(folder)  # the names of the files, before the manifest that lists them
    write_manifest(folder, content)
    return content


def _blocks(
    folder: Path, files: dict[str, Any], old: Manifest | None
) -> dict[str, str]:
    """Checksums of the blocks of large files; those of files that stay are known."""
    known = {} if old is None else old.get("blocks", {})
    large = [name for name, entry in files.items() if entry["bytes"] > SMALL]
    return {name: known.get(name) or block_sums(folder / name) for name in large}


def _write_parts(index: Index, folder: Path, stem: str) -> dict[str, str]:
    """The coder and whatever else the index learned."""
    parts = {}
    if index.takes_vectors:
        parts["coder"] = f"{stem}.coder.safetensors"
        index.coder.save(folder / parts["coder"])
    if isinstance(index.refiner, LongerCode):
        parts["refiner"] = f"{stem}.refiner.safetensors"
        index.refiner.coder.save(folder / parts["refiner"])
    state = index.state()
    if state:
        parts["state"] = f"{stem}.state.safetensors"
        whole = {name: value.contiguous() for name, value in state.items()}
        (folder / parts["state"]).write_bytes(tensor_bytes(whole))
    return parts


def _refiner_kind(refiner: Refiner | None) -> str | None:
    if refiner is None:
        return None
    if isinstance(refiner, HalfPrecision):
        return "half"
    if isinstance(refiner, LongerCode):
        return "code"
    raise InputError(f"a {type(refiner).__name__} cannot be saved with an index")


def _seal(folder: Path, name: str) -> dict[str, Any]:
    """Size and checksum of a file that has reached the disk."""
    flush(folder / name)
    return file_entry(folder / name)


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; the system lets go of it if the process dies.

    Raises:
        InputError: another process, or another thread, is writing.
    """
    try:
        # A link in its place would make a file wherever it points.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(folder / LOCK, flags, 0o666)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from error
    try:
        try:
            _lock(handle)
        except OSError as error:
            raise BusyError(
                f"cannot write {folder}: another writer is busy; try again when it is "
                "done, nothing is lost"
            ) from error
        yield
    finally:
        os.close(handle)


def _delete_unnamed(folder: Path, content: Manifest) -> None:
    """Deletes files of ours that the manifest does not name."""
    named = {MANIFEST, LOCK, *content["files"]}
    for path in folder.iterdir():
        ours = path.name[:6].isdigit() and path.name[6:7] == "-"
        if (ours or path.name.startswith(f".{MANIFEST}.")) and path.name not in named:
            with contextlib.suppress(OSError):
                path.unlink()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
