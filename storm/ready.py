"""What workers would each load by themselves, loaded once before they are forked."""

import contextlib
import importlib
import pkgutil

import gradsnap

LIBRARIES = (
    "faiss", "pyarrow.compute", "pyarrow.fs", "pyarrow.parquet", "rich.console",
    "rich.live", "rich.table", "scipy.optimize", "scipy.sparse.csgraph", "scipy.stats",
)  # fmt: skip
"""What our functions import when they are called."""

LATER = ("gradsnap.scale", "gradsnap.__main__")
"""Libraries of clusters start threads, which a fork does not take along."""


def load_everything() -> None:
    """Imports every module, where what it needs is installed."""
    for name in LIBRARIES:
        _load(name)
    for found in pkgutil.walk_packages(gradsnap.__path__, "gradsnap."):
        if not found.name.startswith(LATER):
            _load(found.name)


def _load(name: str) -> None:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
