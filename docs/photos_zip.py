"""Adds ``tutorial/photos.zip`` to the site: the photos of the tutorial, to download."""

import io
import zipfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

TUTORIAL = Path(__file__).parent / "tutorial"
WHEN = (2026, 1, 1, 0, 0, 0)  # the same archive at every build


def on_files(files: Files, config: Any) -> Files:
    """Called by MkDocs once it knows all files of the site."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(TUTORIAL.glob("*/**/*.jpg")):
            place = zipfile.ZipInfo(path.relative_to(TUTORIAL).as_posix(), WHEN)
            archive.writestr(place, path.read_bytes())
    made = File.generated(config, "tutorial/photos.zip", content=packed.getvalue())
    files.append(made)
    return files
