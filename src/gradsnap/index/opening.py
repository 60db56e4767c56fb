"""Opens an index folder: checks first, then maps what is large."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file

from gradsnap.coders.quantizers import Quantizer, load_coder
from gradsnap.errors import FileFormatError, InputError
from gradsnap.index.index import Index
from gradsnap.index.manifest import Manifest, check_files, read_manifest
from gradsnap.index.rerank import HalfPrecision, LongerCode
from gradsnap.index.segment_files import open_segment

ATTEMPTS = 5
"""Tries to open a folder that a writer changes meanwhile."""


class Origin(NamedTuple):
    """Where an index was loaded from or last saved to, and in which state."""

    folder: Path
    manifest: Manifest


def load_index(
    path: str | os.PathLike[str],
    quantizer: Quantizer | None = None,
    *,
    verify: bool = False,
) -> Any:
    """Opens an index folder; codes are mapped, and read when they are searched.

    Args:
        path: the folder.
        quantizer: the model's; an index made with other codebooks is refused. The
            index has a copy of its own, which is used if none is given.
        verify: compare every file with its checksum. Otherwise all sizes, and the
            checksums of files up to 4 MiB.

    Raises:
        InputError: there is no index, or it was made with other codebooks.
        FileFormatError: a file is missing, truncated, changed or of another version.
    """
    folder = Path(path)
    for attempt in range(ATTEMPTS):
        content = read_manifest(folder)
        try:
            return _opened(folder, content, quantizer, verify)
        except (FileNotFoundError, FileFormatError):
            replaced = read_manifest(folder)["token"] != content["token"]
            if not replaced or attempt == ATTEMPTS - 1:
                raise
    raise FileFormatError(f"{folder} changes faster than it can be opened")


def _opened(
    folder: Path, content: Manifest, given: Quantizer | None, verify: bool
) -> Index:
    check_files(folder, content, every_byte=verify)
    coder = _quantizer(folder, content, given)
    try:
        index = _rebuilt(folder, content, coder)
        index.items.segments = [open_segment(folder, e) for e in content["segments"]]
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{folder} does not fit together: {error!r}") from error
    index.items.next_id = content["next_id"]
    index.fingerprint = content["fingerprint"]
    index.notes = dict(content.get("notes", {}))
    index.origin = Origin(folder.resolve(), content)
    return index


def _quantizer(
    folder: Path, content: Manifest, given: Quantizer | None
) -> Quantizer | None:
    if "quantizer" not in content["parts"]:
        return None
    stored = load_coder(folder / content["parts"]["quantizer"])
    expected = content["fingerprint"] or stored.fingerprint()
    if stored.fingerprint() != expected:
        raise FileFormatError(f"{folder}: its codebooks are not those of its codes")
    if given is not None and given.fingerprint() != expected:
        raise InputError(
            f"{folder} was made with other codebooks (fingerprint {expected[:12]}) "
            f"than the quantizer given ({given.fingerprint()[:12]}): index the vectors "
            "again, or open it with the quantizer it was made with"
        )
    return stored if given is None else given


def _rebuilt(folder: Path, content: Manifest, coder: Quantizer | None) -> Index:
    from gradsnap.index import INDEXES

    kind, parts = content["kind"], content["parts"]
    if kind not in INDEXES:
        raise FileFormatError(
            f"{folder} is an index of kind {kind!r}; known: {', '.join(INDEXES)}"
        )
    options: dict[str, Any] = dict(content["config"])
    positional = [] if coder is None else [coder]
    if content["refiner"] == "half" and coder is not None:
        options["refiner"] = HalfPrecision(coder.dim)
    elif content["refiner"] == "code":
        options["refiner"] = LongerCode(load_coder(folder / parts["refiner"]))
    index: Index = INDEXES[kind](*positional, **options)
    if "state" in parts:
        try:
            index.restore(load_file(folder / parts["state"]))
        except SafetensorError as error:
            raise FileFormatError(f"{folder / parts['state']}: {error}") from error
    return index
