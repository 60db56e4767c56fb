"""A served index from Python: the verbs of an index, over HTTP.

Example:
    ``gs.connect("http://127.0.0.1:8000").search(vectors, k=10)`` gives what
    ``index.search(vectors, k=10)`` gives where the index lies.
"""

import http.client
import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from gradsnap.errors import GradsnapError, InputError

if TYPE_CHECKING:
    from torch import Tensor

    from gradsnap.index import SearchResult

TOGETHER = 1024
"""Queries of one request."""


class ServerError(GradsnapError):
    """The server could not be reached, or refused; ``status`` is 0 or HTTP's."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class Connection:
    """An index of a running ``gradsnap serve``.

    Args:
        url: where the server is, such as ``http://127.0.0.1:8000``.
        index: the index's name; the server's first if None.
        token: what the server asks for, if it does.
        seconds: longest time of a request.
    """

    def __init__(
        self,
        url: str,
        *,
        index: str | None = None,
        token: str | None = None,
        seconds: float = 60.0,
    ) -> None:
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"expected http://HOST:PORT, got {url!r}")
        kinds = {
            "http": http.client.HTTPConnection,
            "https": http.client.HTTPSConnection,
        }
        self.index = index
        self._prefix = parts.path.rstrip("/")
        self._line = kinds[parts.scheme](parts.hostname, parts.port, timeout=seconds)
        weakref.finalize(self, self._line.close)
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}

    def search(
        self,
        queries: "Tensor",
        k: int,
        within: Sequence[int] | Sequence[str] | None = None,
        rerank: int | None = None,
        *,
        where: str | None = None,
        probe: int | None = None,
    ) -> "SearchResult":
        """The k nearest items of each query, as ``Index.search`` gives them.

        Args:
            queries: (q, dim).
            k: how many.
            within: ids to search among; None for all.
            rerank: as of ``Index.search``.
            where: a condition on metadata.
            probe: lists to look into, of an index with lists.
        """
        if queries.ndim != 2:
            raise InputError(f"expected queries (q, dim), got {tuple(queries.shape)}")
        options = self._options(k, within, rerank, where, probe)
        rows = queries.detach().cpu().float().contiguous().numpy().astype("<f4")
        answers: list[Any] = []
        for start in range(0, len(rows), TOGETHER):
            part = rows[start : start + TOGETHER]
            if within is None:
                answers += self._bare(part.tobytes(), options)
            else:
                answers += self._json(options | {"vectors": part.tolist()})
        return _result(answers, k)

    def search_items(
        self,
        ids: Sequence[int] | Sequence[str],
        k: int,
        within: Sequence[int] | Sequence[str] | None = None,
        rerank: int | None = None,
        *,
        where: str | None = None,
        probe: int | None = None,
    ) -> "SearchResult":
        """The k nearest items of items, as ``Index.search_items`` gives them."""
        options = self._options(k, within, rerank, where, probe)
        answers: list[Any] = []
        for start in range(0, len(ids), TOGETHER):
            part = list(ids[start : start + TOGETHER])
            answers += self._json(options | {"ids": part})
        return _result(answers, k)

    def search_image(
        self,
        image: str | os.PathLike[str] | bytes,
        k: int,
        rerank: int | None = None,
        *,
        where: str | None = None,
        probe: int | None = None,
    ) -> "SearchResult":
        """The k nearest items of a picture: its path, or the bytes of its file."""
        data = image if isinstance(image, bytes) else Path(image).read_bytes()
        options = self._options(k, None, rerank, where, probe)
        query = urlencode({**options, "metadata": "false"})
        answer = self._ask("POST", f"/search?{query}", data, "image/*")
        return _result([answer["results"]], k)

    def metadata(self, ids: Sequence[int] | Sequence[str]) -> list[dict[str, Any]]:
        """For each id its columns by name."""
        return [self.item(one)["metadata"] for one in ids]

    def item(self, item: int | str) -> dict[str, Any]:
        """What the index knows of an item: its code, its metadata."""
        found: dict[str, Any] = self._ask("GET", f"/items/{_quoted(item)}{self._query}")
        return found

    def about(self) -> dict[str, Any]:
        """What the index is: sizes, codewords, growth, model."""
        name = self.index or self._ask("GET", "/indexes")["indexes"][0]["name"]
        found: dict[str, Any] = self._ask("GET", f"/indexes/{_quoted(name)}")
        return found

    def __len__(self) -> int:
        return int(self.about()["items"])

    def add(
        self,
        vector: "Tensor",
        id: int | str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> int | str:
        """Adds a vector (dim,) to a writable index; returns its id."""
        sent: dict[str, Any] = {"vector": vector.tolist(), "metadata": metadata or {}}
        sent |= {} if id is None else {"id": id}
        sent |= {} if self.index is None else {"index": self.index}
        made = self._ask("POST", "/items", json.dumps(sent).encode())
        given: int | str = made["id"]
        return given

    def remove(self, item: int | str) -> None:
        """Removes an item of a writable index."""
        self._ask("DELETE", f"/items/{_quoted(item)}{self._query}")

    def close(self) -> None:
        """Ends the connection."""
        self._line.close()

    # --- the parts ----------------------------------------------------------

    @property
    def _query(self) -> str:
        return "" if self.index is None else f"?{urlencode({'index': self.index})}"

    def _options(
        self, k: int, within: Any, rerank: int | None, where: str | None, probe: Any
    ) -> dict[str, Any]:
        ids = within.tolist() if hasattr(within, "tolist") else within
        given: dict[str, Any] = {
            "index": self.index,
            "k": k,
            "rerank": rerank,
            "where": where,
        }
        given |= {"probe": probe, "within": None if ids is None else list(ids)}
        return {name: value for name, value in given.items() if value is not None}

    def _bare(self, body: bytes, options: dict[str, Any]) -> list[Any]:
        query = urlencode(options)
        kind = "application/octet-stream"
        answer = self._ask("POST", f"/search/batch?{query}", body, kind)
        found: list[Any] = answer["results"]
        return found

    def _json(self, fields: dict[str, Any]) -> list[Any]:
        body = json.dumps(fields).encode()
        found: list[Any] = self._ask("POST", "/search/batch", body)["results"]
        return found

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str = "application/json",
    ) -> Any:
        headers = self._headers | ({} if body is None else {"content-type": kind})
        status, text = self._exchange(method, f"{self._prefix}{path}", body, headers)
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ServerError("the server's answer is no JSON", status) from error
        if status >= 400:
            raise ServerError(str(content.get("error", status)), status)
        return content

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        """One request, sent once more where a kept connection was closed meanwhile."""
        for attempt in (1, 2):
            fresh = self._line.sock is None
            try:
                self._line.request(method, path, body, headers)
                answer = self._line.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError) as error:
                self._line.close()
                if fresh or attempt == 2 or isinstance(error, TimeoutError):
                    host = f"{self._line.host}:{self._line.port}"
                    raise ServerError(f"{host} does not answer: {error}") from error
        raise ServerError("the server does not answer")


def connect(
    url: str,
    *,
    index: str | None = None,
    token: str | None = None,
    seconds: float = 60.0,
) -> Connection:
    """An index of a running ``gradsnap serve``; nothing is sent yet.

    Args:
        url: where the server is, such as ``http://127.0.0.1:8000``.
        index: the index's name; the server's first if None.
        token: what the server asks for, if it does.
        seconds: longest time of a request.
    """
    return Connection(url, index=index, token=token, seconds=seconds)


def _quoted(item: int | str) -> str:
    return quote(str(item), safe="", errors="surrogateescape")


def _result(answers: list[Any], k: int) -> "SearchResult":
    """Rows of results as an index gives them, padded to k."""
    import torch

    from gradsnap.index import SearchResult

    named = any(isinstance(one["id"], str) for row in answers for one in row)
    nothing = None if named else -1
    ids = [[one["id"] for one in row] + [nothing] * (k - len(row)) for row in answers]
    far = [
        [one["distance"] for one in row] + [float("inf")] * (k - len(row))
        for row in answers
    ]
    distances = torch.tensor(far, dtype=torch.float32).view(len(answers), k)
    if named:
        return SearchResult(ids, distances)
    return SearchResult(
        torch.tensor(ids, dtype=torch.int64).view(len(ids), k), distances
    )


__all__ = ["Connection", "ServerError", "connect"]
