"""A coder's file on any file system."""

import tempfile
from pathlib import Path

from gradsnap.coders import Coder, load_coder
from gradsnap.places import Place

FILE = "coder.safetensors"


def write_coder(coder: Coder, place: Place) -> None:
    """Writes a coder to a place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        coder.save(path)
        place.write(path.read_bytes())


def read_coder(place: Place) -> Coder:
    """The coder at a place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_bytes(place.read())
        return load_coder(path)
