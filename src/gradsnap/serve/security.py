"""Who may ask: the right host, no other web site, and the token where there is one.

A server that listens on this machine only is still reached by every page its user
opens. Such a page cannot read answers (CORS is off), but a name it owns can be made to
point here, and then it could: so the ``Host`` of a request must be one of ours. And it
could send what it cannot read the answer of: so a request that writes or searches must
not come from another ``Origin``.
"""

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gradsnap.serve.refusals import Refusal
from gradsnap.serve.responses import refuse
from gradsnap.serve.settings import ServeSettings

COOKIE = "gradsnap_session"

OPEN = frozenset({"/", "/health", "/ready", "/docs", "/session", "/openapi.json"})
"""Paths that say nothing of an index, so that they need no token."""

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(self), microphone=(), geolocation=()"),
)
"""Of every response."""


class Access:
    """The token, and the cookie a browser gets for it.

    The cookie is not the token: it is made with a secret of this process, so that it
    is worth nothing once the server ends.

    Args:
        token: what must be shown; None if nothing.
    """

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else token.encode()
        self._cookie = b""
        if token is not None:
            secret = secrets.token_bytes(32)
            made = hmac.new(secret, token.encode(), hashlib.sha256).hexdigest()
            self._cookie = made.encode()

    @property
    def needed(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    @property
    def cookie(self) -> str:
        """What a browser keeps."""
        return self._cookie.decode()

    def is_token(self, given: str) -> bool:
        """Whether it is the token; in the same time for every wrong one."""
        return self._token is not None and hmac.compare_digest(
            given.encode("utf-8", "replace"), self._token
        )

    def allows(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a request shows the token, or the cookie made of it."""
        if self._token is None:
            return True
        given = headers.get(b"authorization", b"")
        if given[:7].lower() == b"bearer ":
            return hmac.compare_digest(given[7:].strip(), self._token)
        return hmac.compare_digest(_cookie(headers), self._cookie)


def _cookie(headers: dict[bytes, bytes]) -> bytes:
    try:
        jar = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return b""
    return jar[COOKIE].value.encode("latin-1", "replace") if COOKIE in jar else b""


class Guard:
    """Refuses requests of unknown hosts, other sites, or without the token.

    Args:
        app: what answers the others.
        settings: address, names and token.
        access: the token.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, access: Access) -> None:
        self.app, self.access = app, access
        self.hosts = known_hosts(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, with the headers every response has."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS, *_echo(headers)]
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refuse(refusal, sending)
        else:
            await self.app(scope, receive, sending)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not is_known(host, self.hosts):
            return Refusal(421, "this server is not reached by that name")
        origin = headers.get(b"origin")
        if origin is not None and not same_origin(origin.decode("latin-1"), host):
            return Refusal(403, "requests of other sites are refused")
        path = scope["path"]
        if path in OPEN or path.startswith("/page/") or self.access.allows(headers):
            return None
        asked = {"www-authenticate": "Bearer"}
        return Refusal(401, "a token is needed", asked)


def _echo(headers: dict[bytes, bytes]) -> Iterable[tuple[bytes, bytes]]:
    """The request's own name for itself, so that a caller can tell answers apart."""
    given = headers.get(b"x-request-id")
    if given is not None and len(given) <= 128 and given.isalnum():
        yield b"x-request-id", given


def known_hosts(settings: ServeSettings) -> frozenset[str] | None:
    """Names requests may call this server by; None for any.

    Any is right only where a token is asked for, or everybody may search: other sites
    gain nothing there.
    """
    if settings.names:
        return frozenset({*map(str.lower, settings.names), *_own(settings)})
    return frozenset(_own(settings)) if settings.is_local else None


def _own(settings: ServeSettings) -> set[str]:
    return {"localhost", "127.0.0.1", "::1", settings.host.lower()}


def is_known(host: str, known: frozenset[str] | None) -> bool:
    """Whether the name of a ``Host`` header, without its port, is one of ours.

    Example:
        >>> ours = frozenset({"localhost", "::1"})
        >>> [is_known(h, ours) for h in ("localhost:80", "[::1]:80", "evil.example")]
        [True, True, False]
    """
    if known is None:
        return True
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and (name in known or _is_loopback(name, known))


def _is_loopback(name: str, known: Any) -> bool:
    try:
        return "localhost" in known and ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def same_origin(origin: str, host: str) -> bool:
    """Whether a page of this origin is one of ours.

    Example:
        >>> same_origin("http://127.0.0.1:8000", "127.0.0.1:8000")
        True
        >>> same_origin("null", "127.0.0.1:8000")
        False
    """
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:
        return False
