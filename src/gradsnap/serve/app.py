"""The application: which address is answered by what, and what wraps it all."""

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gradsnap.serve import documented as doc
from gradsnap.serve.about import about, summary
from gradsnap.serve.facets import facets
from gradsnap.serve.items import add_item, item, random_item, remove_item, thumbnail
from gradsnap.serve.json_response import as_json
from gradsnap.serve.limits import Limits
from gradsnap.serve.metrics import Measured
from gradsnap.serve.page_files import PageFiles
from gradsnap.serve.refusals import Refusal
from gradsnap.serve.searching import explain_item, search, search_batch
from gradsnap.serve.security import COOKIE, Guard
from gradsnap.serve.service import Service
from gradsnap.serve.settings import ServeSettings

logger = logging.getLogger(__name__)

ROUTES: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("POST", "/search", search, doc.SEARCH),
    ("POST", "/search/batch", search_batch, doc.BATCH),
    ("POST", "/explain", explain_item, doc.EXPLAIN),
    ("GET", "/items/{id:path}", item, doc.ITEM),
    ("GET", "/thumbnails/{id:path}", thumbnail, doc.THUMBNAIL),
    ("GET", "/random", random_item, doc.RANDOM),
    ("POST", "/items", add_item, doc.ADD),
    ("DELETE", "/items/{id:path}", remove_item, doc.REMOVE),
]
"""Method, path, handler and description of what asks or changes an index."""


def make_app(folders: Mapping[str, str | Path], settings: ServeSettings) -> FastAPI:
    """The application over indexes by name; opens them at once."""
    service = Service(folders, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.service = service
    app.state.page = PageFiles()
    every = [*ROUTES, *ABOUT]
    for method, path, handler, _ in every:
        app.add_route(path, handler, methods=[method])
    for path, handler in PAGE.items():
        app.add_route(path, handler)
    app.openapi = described  # type: ignore[method-assign]
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(Limits, settings=settings)
    app.add_middleware(Guard, settings=settings, access=service.access)
    known = {path.split("/")[1] for _, path, _, _ in every}
    app.add_middleware(Measured, metrics=service.metrics, routes=known)
    return app


@functools.cache
def described() -> dict[str, Any]:
    """The API in OpenAPI's own words.

    Handlers read requests by themselves, so the routes that answer are Starlette's,
    which cost less; these only describe them.
    """
    router = APIRouter()
    for method, path, handler, words in [*ROUTES, *ABOUT]:
        router.add_api_route(
            path, handler, methods=[method], response_class=Response, **words
        )
    return get_openapi(
        title="gradsnap",
        version="1",
        description=doc.INTRODUCTION,
        routes=router.routes,
    )


async def _refused(request: Request, error: Exception) -> Response:
    refusal = error if isinstance(error, Refusal) else Refusal(500, "this failed")
    made = as_json({"error": refusal.sentence}, refusal.status)
    made.headers.update(refusal.headers)
    return made


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "there is nothing here", 405: "this cannot be done here"}
    return as_json({"error": words.get(status, "this cannot be answered")}, status)


async def _failed(request: Request, error: Exception) -> Response:
    logger.error("a request failed", exc_info=error)
    return as_json({"error": "this failed; the server's log says why"}, 500)


# --- the page, and what the indexes are ------------------------------------------


async def health(request: Request) -> Response:
    """Whether the process answers."""
    return as_json({"status": "ok"})


async def ready(request: Request) -> Response:
    """Whether the indexes are open."""
    service: Service = request.app.state.service
    return as_json({"ready": service.ready}, 200 if service.ready else 503)


async def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    service: Service = request.app.state.service
    for served in service.by_name.values():
        served.count()
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


async def indexes(request: Request) -> Response:
    """The indexes, the first one first."""
    service: Service = request.app.state.service
    listed = [summary(name, one.version) for name, one in service.by_name.items()]
    return as_json({"indexes": listed, "writable": service.settings.writable})


async def one_index(request: Request) -> Response:
    """What an index is: sizes, codewords, error, growth, model."""
    service: Service = request.app.state.service
    served = service.named(request.path_params["name"])
    made = await served.once_a_version("about", about, served.opened, served.version)
    return as_json(made)


async def index_facets(request: Request) -> Response:
    """What an index can be filtered by."""
    service: Service = request.app.state.service
    served = service.named(request.path_params["name"])
    found = await served.once_a_version("facets", facets, served.version.index)
    return as_json({"facets": found})


async def session(request: Request) -> Response:
    """Gives a browser that shows the token a cookie for it."""
    service: Service = request.app.state.service
    access = service.access
    given = request.headers.get("authorization", "")
    if access.needed and not access.is_token(given.removeprefix("Bearer ").strip()):
        raise Refusal(401, "this is not the token")
    made = as_json({"session": True})
    if access.needed:
        secure = request.url.scheme == "https"
        made.set_cookie(
            COOKIE, access.cookie, httponly=True, samesite="strict", secure=secure
        )
    return made


async def page(request: Request) -> Response:
    """The search page."""
    return _file(request, "index.html")


async def documentation(request: Request) -> Response:
    """The API, described by its own page."""
    return _file(request, "docs.html")


async def page_file(request: Request) -> Response:
    """A file of the page."""
    return _file(request, request.path_params["name"])


def _file(request: Request, name: str) -> Response:
    files: PageFiles = request.app.state.page
    return files.response(name, request)


ABOUT: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("GET", "/indexes", indexes, doc.INDEXES),
    ("GET", "/indexes/{name}", one_index, doc.INDEX),
    ("GET", "/indexes/{name}/facets", index_facets, doc.FACETS),
    ("GET", "/health", health, doc.HEALTH),
    ("GET", "/ready", ready, doc.READY),
    ("GET", "/metrics", metrics, doc.METRICS),
    ("POST", "/session", session, doc.SESSION),
]

PAGE = {"/": page, "/docs": documentation, "/page/{name}": page_file}
