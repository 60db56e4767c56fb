"""What verbs look at before they begin to work."""

import os
from pathlib import Path


def check_place(out: Path) -> None:
    """Refuses a place where nothing can be written, before hours of work.

    Raises:
        InputError: its folder does not exist or cannot be written to.
    """
    from gradsnap.errors import InputError

    folder = out.absolute().parent
    if not folder.is_dir():
        raise InputError(
            f"cannot write {out}: the folder {folder} does not exist; make it first"
        )
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {out}: {folder} is not yours to write")
