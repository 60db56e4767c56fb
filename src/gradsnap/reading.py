"""Files of others, read by readers of others: whatever goes wrong is one sentence."""

import contextlib
import os
from collections.abc import Iterator

from gradsnap.errors import FileFormatError, GradsnapError


@contextlib.contextmanager
def reading(source: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Whatever a reader raises at a broken file leaves as a ``FileFormatError``.

    Decoders of arrays, archives and tables raise nearly anything at bytes that were
    never meant for them: a tokenizer's error at a header, too little memory for a size
    that is a lie.

    Args:
        source: the file, for the sentence.
        what: it should be, such as "an array".

    Raises:
        FileFormatError: the file is truncated, changed or something else. An error of
            ours, a missing file and one that may not be read pass as they are.
    """
    try:
        yield
    except (GradsnapError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FileFormatError(
            f"{os.fspath(source)} is truncated or not {what}: {first}"
        ) from error
