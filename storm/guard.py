"""Watches a process for what no file may make it do: run, connect, look elsewhere."""

import sys
from pathlib import Path
from typing import Any

from storm.outcomes import CodeExecuted

RUNS = {
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pty.spawn",
    "socket.connect",
    "subprocess.Popen",
    "webbrowser.open",
}
"""What Python tells its audit hooks before a program is started or called."""

SECRET = "secret-of-the-storm"
"""A file of this name lies beside every folder of a try; nothing may open it."""

_armed: list[bool] = []


def install() -> None:
    """Adds the hook to this process; it cannot be taken away."""
    sys.addaudithook(_hook)


def arm(on: bool) -> None:
    """Switches the watch on or off."""
    _armed[:] = [True] if on else []


def _is_own_worker(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether Python's own workers talk to each other, in a folder of their own."""
    return event == "socket.connect" and "/pymp-" in str(arguments[1])


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _armed:
        return
    if event in RUNS and not _is_own_worker(event, arguments):
        raise CodeExecuted(f"{event}{arguments!r:.200}")
    if event == "open" and isinstance(arguments[0], str | bytes | Path):
        name = arguments[0]
        text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        if text.endswith(SECRET):
            raise CodeExecuted(f"opened {text}, which lies outside")
