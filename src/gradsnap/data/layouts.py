"""Where a data set lies below the folder a user names."""

import os
from collections.abc import Sequence
from pathlib import Path

from gradsnap.errors import InputError


def located(
    name: str, root: str | os.PathLike[str] | None, folders: Sequence[str], mark: str
) -> Path:
    """The folder with files that match ``mark``: ``root``, or a known folder in it.

    Args:
        name: the data set's, for the error.
        root: what the user named.
        folders: where the publishers' archives put the files below it.
        mark: a pattern of a file that is always there.

    Raises:
        InputError: no root, or no such files in it.
    """
    if root is None:
        raise InputError(f"{name} needs root, the folder that holds its {mark}")
    for folder in (Path(root), *(Path(root) / folder for folder in folders)):
        if folder.is_dir() and any(folder.glob(mark)):
            return folder
    raise InputError(
        f"there is no {mark} of {name} in {root}, nor in its folders "
        f"{', '.join(folders)}"
    )
