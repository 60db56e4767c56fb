"""How much a request may send, and how long it may take."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gradsnap.serve.refusals import Refusal
from gradsnap.serve.responses import refuse
from gradsnap.serve.settings import ServeSettings


class Limits:
    """Refuses bodies that are too large, and ends requests that take too long.

    Args:
        app: what answers.
        settings: the limits.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or says which limit was reached."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        counted = Counted(receive, self.settings.upload_bytes)
        try:
            counted.check(dict(scope["headers"]).get(b"content-length"))
            async with asyncio.timeout(self.settings.seconds):
                await self.app(scope, counted, sending)
        except (TooLarge, TimeoutError) as error:
            if not begun:
                await refuse(self._refusal(error), send)

    def _refusal(self, error: Exception) -> Refusal:
        if isinstance(error, TooLarge):
            most = self.settings.upload_bytes
            return Refusal(
                413, f"at most {most:,} bytes can be sent", {"connection": "close"}
            )
        return Refusal(
            503,
            f"this took longer than {self.settings.seconds:g} s",
            {"retry-after": "1"},
        )


class TooLarge(Exception):
    """A body of more bytes than may be sent."""


class Counted:
    """``receive`` of ASGI, which counts the bytes of the body.

    Args:
        receive: the server's.
        most: bytes.
    """

    def __init__(self, receive: Receive, most: int) -> None:
        self.receive, self.most, self.count = receive, most, 0

    def check(self, length: bytes | None) -> None:
        """Refuses a length that is said to be too large."""
        if length is not None and length.isdigit() and int(length) > self.most:
            raise TooLarge

    async def __call__(self) -> Message:
        """The next message; counts its bytes."""
        message = await self.receive()
        self.count += len(message.get("body", b""))
        if self.count > self.most:
            raise TooLarge
        return message
