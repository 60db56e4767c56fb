"""Files written beside and renamed: a crash leaves the old file or the new one.

Texts, and named tensors with a few words beside them (safetensors, never a pickle).
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gradsnap.errors import FileFormatError, InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HELD = "writer.lock"
"""The file in a folder by which its writer holds it."""

YOUNG = 3600.0
"""Seconds after which a folder that was never locked is left behind."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path in the same folder; renames it to ``path`` at the end.

    If the body raises (a full disk, Ctrl-C), the temporary file is removed and
    whatever stood at ``path`` before still stands there. What a killed process left
    behind is removed by the next one that writes there. Once it is renamed, the file
    outlives a power cut.

    Raises:
        InputError: the folder of ``path`` does not exist or cannot be written to, or
            ``path`` is itself a folder.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {target}: the folder {folder} does not exist")
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder, name a file in it")
    start = f".{target.name[:64]}."
    remove_left_behind(folder, start)
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=start)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    temporary = Path(name)
    try:
        hold(handle)
        yield temporary
        flush(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
        flush(folder)
    finally:
        os.close(handle)
        temporary.unlink(missing_ok=True)


def remove_left_behind(folder: Path, start: str) -> None:
    """Removes temporary files and folders that nobody holds any more."""
    for name in os.listdir(folder):
        if name.startswith(start) and not _is_held(folder / name):
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()


def _is_held(path: Path) -> bool:
    """Whether a process that lives is writing there; where unsure, one is."""
    own = path / HELD if path.is_dir() else path
    try:
        handle = os.open(own, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return time.time() - os.lstat(path).st_mtime < YOUNG  # not locked yet
    except OSError:
        return True
    try:
        return not hold(handle)
    finally:
        os.close(handle)


def hold(handle: int) -> bool:
    """Locks an open file, which the system undoes if the process dies; whether."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def flush(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle for a folder
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Makes a folder with its parents, or says why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make the folder {folder}: {error.strerror}"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Writes a text beside ``path`` and renames it into place."""
    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    except UnicodeEncodeError as error:  # a name whose bytes are no UTF-8
        line = text.split("\n")[text.count("\n", 0, error.start)].strip()
        raise InputError(f"cannot write {path}: not UTF-8 in {line!r:.200}") from error


def read_json(path: Path) -> Any:
    """What a JSON file of somebody holds; nothing is believed of it.

    Raises:
        FileFormatError: it is a pipe or a folder, not UTF-8, not JSON, or nested so
            deep that nobody meant it.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError("not a regular file")
        content = json.loads(path.read_text(encoding="utf-8"))
        if _is_deeper(content, DEEPEST):
            raise ValueError(f"more than {DEEPEST} lists and tables in each other")
    except (ValueError, OSError, RecursionError) as error:
        raise FileFormatError(f"{path} is truncated or not JSON ({error})") from error
    return content


DEEPEST = 50
"""Ours are five deep or so; what is much deeper ends in a full stack somewhere."""


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and tables lie in each other more often than that."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels + 1):
        lists = [one.values() if isinstance(one, dict) else one for one in level]
        level = [i for one in lists for i in one if isinstance(i, dict | list)]
        if not level:
            return False
    return True


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], words: dict[str, str]
) -> None:
    """Writes the tensors beside ``path``, then renames them into place.

    Raises:
        InputError: it cannot be written there; what was there before still is.
    """
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        with replacing(path) as temporary:
            whole = words | {CHECKSUM: _digest(plain, words)}
            temporary.write_bytes(tensor_bytes(plain, whole))
    except OSError as error:
        raise InputError(
            f"cannot write {os.fspath(path)}: {error.strerror or error}"
        ) from error


def tensor_bytes(
    tensors: Mapping[str, Tensor], words: dict[str, str] | None = None
) -> bytes:
    """The tensors as a safetensors file.

    Its own ``save_file`` writes to a file of a name of its own, which stays for good
    where the process is killed.
    """
    return _in_order(save(dict(tensors), words))


def _in_order(data: bytes) -> bytes:
    """The file with its words sorted: safetensors' own order is another every time."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    words = dict(sorted(header.pop("__metadata__", {}).items()))
    own = {"__metadata__": words} if words else {}
    text = json.dumps(own | header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + data[start:]


def read_tensors(
    path: str | os.PathLike[str], formats: str | tuple[str, ...], what: str
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file and its words; runs no code from the file.

    Args:
        path: written by ``write_tensors``.
        formats: what its word "format" may be.
        what: the file should hold, for the error.

    Raises:
        InputError: there is no such file.
        FileFormatError: the file is truncated, changed or of another format.
    """
    name = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"there is no file {name}")
    try:
        with safe_open(name, framework="pt") as file:
            words = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError(
            f"{name} is truncated or not a safetensors file ({error})"
        ) from error
    given = words.pop(CHECKSUM, None)
    # Files of earlier versions have none. One under another name was changed, too.
    has_one = given is not None or any(map(_is_digest, words.values()))
    if has_one and given != _digest(tensors, words):
        raise FileFormatError(f"{name} was changed: its checksum does not fit")
    known = (formats,) if isinstance(formats, str) else formats
    if words.get("format") not in known:
        raise FileFormatError(
            f"{name} is not {what}: its format is {words.get('format')!r}, "
            f"expected {known[0]!r}"
        )
    return tensors, words


def check_finite(tensors: Mapping[str, Tensor], path: str) -> None:
    """Refuses numbers that are not finite, from which no distance can be made."""
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise FileFormatError(f"{path} is damaged: {name} holds NaN or infinity")


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with ``prefix.`` before each name."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose name starts with ``prefix.``, without it."""
    start = f"{prefix}."
    return {
        name.removeprefix(start): value
        for name, value in tensors.items()
        if name.startswith(start)
    }


CHECKSUM = "sha256"
"""The word that a file's other words and its tensors are checked against."""


def _is_digest(word: str) -> bool:
    return len(word) == 64 and set(word) <= set("0123456789abcdef")


def _digest(tensors: Mapping[str, Tensor], words: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(words.items())).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
