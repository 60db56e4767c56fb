"""What Prometheus reads: requests, times, batches, queues, versions, memory."""

import time
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self.requests = Counter(
            "gradsnap_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=own,
        )
        self.seconds = Histogram(
            "gradsnap_request_seconds",
            "Seconds of a request.",
            ["route"],
            buckets=SECONDS,
            registry=own,
        )
        self.batches = Histogram(
            "gradsnap_batch_queries",
            "Queries of a batch.",
            ["index", "step"],
            buckets=SIZES,
            registry=own,
        )
        self.waited = Histogram(
            "gradsnap_batch_wait_seconds",
            "Seconds the first query of a batch waited.",
            ["index", "step"],
            buckets=SECONDS,
            registry=own,
        )
        labels = ["index"]
        self.items = Gauge("gradsnap_items", "Items.", labels, registry=own)
        self.version = Gauge("gradsnap_version", "Saves.", labels, registry=own)
        self.reopened = Gauge(
            "gradsnap_reopened", "Times a new version was opened.", labels, registry=own
        )
        self.damaged = Gauge(
            "gradsnap_damaged", "Whether a file was changed.", labels, registry=own
        )
        self.queued = Gauge("gradsnap_queued", "Queries waiting.", labels, registry=own)

    def text(self) -> bytes:
        """In Prometheus's own format."""
        return generate_latest(self.registry)


class Measured:
    """Counts requests and their times.

    Args:
        app: what answers.
        metrics: where it is counted.
        routes: first parts of paths; others are counted as "other", so that nobody can
            make up labels.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Iterable[str]) -> None:
        self.app, self.metrics, self.routes = app, metrics, frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers and counts."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            first = scope["path"].split("/", 2)[1]
            route = f"/{first}" if first in self.routes else "other"
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - started)
