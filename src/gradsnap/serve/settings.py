"""What a server is told when it starts; every limit has its unit in its name."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from gradsnap.errors import InputError

MIB = 2**20

FEWEST_TOKEN_LETTERS = 16


@dataclass(frozen=True)
class ServeSettings:
    """Where a server listens, who may ask, and how much.

    Raises:
        InputError: other machines could ask without a token, and ``public`` is not set.
    """

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0 takes a free one."""
    token: str | None = None
    """What every request must show; None for nothing."""
    public: bool = False
    """Whether other machines may ask without a token."""
    names: tuple[str, ...] = ()
    """Names the server is reached by, beside its address."""
    writable: bool = False
    """Whether items may be added and removed."""
    model: str | None = None
    """The model folder, where the index's own was moved."""
    network_from: str | None = None
    """``package.module:function`` that builds the network of the model."""
    engine: str = "auto"
    """What embeds pictures, as of ``gradsnap.embed``."""
    root: str | None = None
    """The folder that image names are relative to, where it was moved."""
    window_milliseconds: float = 2.0
    """How long a batch waits for more queries, where several came last time."""
    batch: int = 64
    """Queries that are searched together at most."""
    queue: int = 1024
    """Queries that may wait; more are refused with 429."""
    upload_bytes: int = 20 * MIB
    """Largest body of a request."""
    pixels: int = 50_000_000
    """Largest picture, width times height."""
    seconds: float = 30.0
    """Longest time of a request."""
    most_results: int = 1000
    """Largest k of one request."""
    on: str | None = None
    """Where shards are searched: ``ray``, ``ray://HOST:PORT``, or None for here."""
    partial: float | None = None
    """Seconds after which an answer goes without the shards that are missing; None
    waits for all."""
    reopen_seconds: float = 0.5
    """How often it is looked whether a writer saved a new version."""

    def __post_init__(self) -> None:
        if not (self.is_local or self.token or self.public):
            raise InputError(
                f"--host {self.host} can be reached by other machines: give a token "
                "with --token-file, or say --public if everybody may search"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_token(path: Path) -> str:
    """The token that a file holds, without white space around it.

    Raises:
        InputError: it cannot be read, or is shorter than 16 letters.
    """
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the token of {path}: {error}") from error
    if len(token) < FEWEST_TOKEN_LETTERS:
        raise InputError(
            f"the token of {path} has {len(token)} letters, and needs "
            f"{FEWEST_TOKEN_LETTERS}: openssl rand -hex 32 > {path}"
        )
    return token
