"""A search page and an API over indexes: ``gradsnap serve`` (extra ``serve``).

Nothing here imports FastAPI until a server is made, so that the client works without
the extra.
"""

from typing import TYPE_CHECKING

from gradsnap.errors import InputError
from gradsnap.serve.client import Connection, connect
from gradsnap.serve.settings import ServeSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fastapi import FastAPI

__all__ = ["Connection", "ServeSettings", "connect", "make_app", "run_server"]


def make_app(folders: "Mapping[str, str | Path]", settings: ServeSettings) -> "FastAPI":
    """The ASGI application over indexes by name; opens them at once.

    Raises:
        InputError: the extra ``serve`` is not installed, or a folder is no index.
    """
    require_extra()
    from gradsnap.serve.app import make_app as make

    return make(folders, settings)


def run_server(folders: "Mapping[str, str | Path]", settings: ServeSettings) -> None:
    """Serves indexes by name until the process is told to end.

    Raises:
        InputError: the extra ``serve`` is not installed, a folder is no index, or the
            address cannot be used.
    """
    require_extra()
    from gradsnap.serve.running import run_server as run

    run(folders, settings)


def require_extra() -> None:
    """Refuses to go on without FastAPI and what belongs to it."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{error.name} is not installed, and serving needs it: "
            "install gradsnap[serve]"
        ) from error
