"""A process that serves: its socket, its threads, its end.

SIGTERM and Ctrl-C end it after the requests that run.
"""

import logging
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import uvicorn

from gradsnap.errors import InputError
from gradsnap.serve.app import make_app
from gradsnap.serve.settings import ServeSettings
from gradsnap.strings import shown

BACKLOG = 2048

logger = logging.getLogger(__name__)


def run_server(folders: Mapping[str, str | Path], settings: ServeSettings) -> None:
    """Serves indexes by name until the process is told to end."""
    listening = listen(settings.host, settings.port)
    app = make_app(folders, settings)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
        backlog=BACKLOG,
    )
    host, port = listening.getsockname()[:2]
    address = f"[{host}]" if ":" in host else host
    names = ", ".join(map(shown, folders))
    sys.stdout.write(f"{names}: http://{address}:{port} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket at the address; 0 takes a free port.

    Raises:
        InputError: the address is taken, or is none of this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error}; choose another with --port, "
            "0 takes a free one"
        ) from error
    made.listen(BACKLOG)
    return made
