"""Tests reach this machine and nothing else: a guard before every connection.

It holds in the processes of pytest. Processes that tests start are servers, which
listen on 127.0.0.1, and commands, none of which opens a connection.
"""

import ipaddress
import os
import socket
from typing import Any

CONNECTS = ("connect", "connect_ex", "sendto")


def is_local(family: int, address: Any) -> bool:
    """Whether an address is of this machine."""
    if family not in (socket.AF_INET, socket.AF_INET6):
        return True
    host = str(address[0]).partition("%")[0]
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def install() -> None:
    """Puts the guard before all ways to reach another machine.

    A Ray that a test imports before our code does would listen on all addresses.
    """
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    for name in CONNECTS:
        setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))


def _guarded(real: Any) -> Any:
    def call(own: socket.socket, *arguments: Any) -> Any:
        address = next((one for one in arguments if isinstance(one, tuple)), None)
        if address is not None and not is_local(own.family, address):
            raise RuntimeError(f"tests use no network, and this one asks {address[0]}")
        return real(own, *arguments)

    return call
