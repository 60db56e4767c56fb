"""What a request is told when it is refused: one sentence, no path, no stack."""

import json
from typing import Any


class Refusal(Exception):
    """A request that cannot be answered.

    Args:
        status: of HTTP.
        sentence: for whoever asked; it names nothing of this machine.
        headers: further ones of the response.
    """

    def __init__(
        self, status: int, sentence: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = headers or {}

    def body(self) -> bytes:
        """The response's body."""
        return json.dumps({"error": self.sentence}).encode()


def busy(seconds: int = 1) -> Refusal:
    """Too many queries wait already."""
    return Refusal(
        429, "too many queries wait; try again", {"retry-after": str(seconds)}
    )


def no_item(given: Any) -> Refusal:
    """There is no item of such an id."""
    return Refusal(404, f"there is no item {str(given)[:200]!r}")


def unreadable(sentence: str) -> Refusal:
    """What was sent cannot be used."""
    return Refusal(422, sentence)
