"""The page's own files: read once, sent with a tag so that a browser keeps them."""

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from gradsnap.serve.refusals import Refusal

FOLDER = Path(__file__).parent / "page"

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFiles:
    """Files by name; nothing outside of the folder has a name here."""

    def __init__(self) -> None:
        self._files = {
            path.name: path.read_bytes()
            for path in sorted(FOLDER.iterdir())
            if path.suffix in KINDS
        }

    def response(self, name: str, request: Request) -> Response:
        """A file, or that the browser has it already.

        Raises:
            Refusal: there is none of that name.
        """
        data = self._files.get(name)
        if data is None:
            raise Refusal(404, "there is nothing here")
        tag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=KINDS[Path(name).suffix], headers=headers)
