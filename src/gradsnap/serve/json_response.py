"""JSON as responses hold it: small, and never NaN."""

import json
from typing import Any

from starlette.responses import Response


def as_json(content: Any, status: int = 200) -> Response:
    """A response that nothing between may keep."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return Response(
        body,
        status,
        {"cache-control": "no-store"},
        media_type="application/json",
    )
