"""Responses written at the ASGI level, before or instead of the application."""

from gradsnap.serve.refusals import Refusal

Headers = list[tuple[bytes, bytes]]


async def refuse(refusal: Refusal, send: object) -> None:
    """Sends what a request is told when it is refused."""
    body = refusal.body()
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((n.encode(), v.encode()) for n, v in refusal.headers.items()),
    ]
    start = {
        "type": "http.response.start",
        "status": refusal.status,
        "headers": headers,
    }
    await send(start)  # type: ignore[operator]
    await send({"type": "http.response.body", "body": body})  # type: ignore[operator]
