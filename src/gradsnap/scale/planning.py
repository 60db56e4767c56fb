"""How many machines, hours and bytes a collection takes, by rates a core has.

Nothing here is measured: formulas, and a simulation of queries that wait for cores.
"""

import heapq
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradsnap.errors import InputError
from gradsnap.scale.rates import Rates

QUERIES = 20_000
"""Queries that are simulated."""

FULL = 0.7
"""Of the time, cores of a search may be busy: beyond it queries queue up."""


@dataclass(frozen=True)
class Wish:
    """What is to be had.

    Raises:
        InputError: a number is not above zero.
    """

    items: float
    bits: int = 64
    dim: int = 128
    qps: float = 100.0
    """Queries a second."""
    probed: float = 1.0
    """Share of all codes that a query is compared with: probes / lists."""
    hours: float = 24.0
    """In which all is encoded."""
    cores: int = 32
    """Of a machine."""
    half: bool = False
    """Whether half-precision embeddings are kept."""
    vectors: bool = False
    """Whether items are vectors already, not images."""
    workers: int | None = None
    """Cores that encode; as many as ``hours`` needs if None."""
    start_seconds: float = 20.0
    """Until a worker does its first row: Ray, imports, the model."""

    def __post_init__(self) -> None:
        numbers = (self.items, self.bits, self.dim, self.qps, self.hours, self.cores)
        if not all(number > 0 for number in numbers) or not 0 < self.probed <= 1:
            raise InputError(
                "items, bits, dim, qps, hours and cores must be above zero, and the "
                f"share of codes that is probed in (0, 1]; got {self}"
            )


class Plan(NamedTuple):
    """What it takes."""

    encode_cores: int
    encode_machines: int
    encode_hours: float
    index_hours: float
    """On the cores that encoded."""
    code_bytes: float
    table_bytes: float
    read_bytes: float
    """Of images or vectors, once."""
    requests: float
    """To the object store, for reading the source and writing the table."""
    search_shards: int
    """Cores that search, each with a shard of its own; a query asks them all."""
    search_machines: int
    search_replicas: int
    """Copies of all shards, so that queries do not wait."""
    memory_bytes: float
    """Of codes on each searching machine."""
    query_seconds: float
    """Of a query on an idle cluster."""
    median_seconds: float
    slow_seconds: float
    """99 of 100 queries are answered sooner, at the wished rate."""


def planned(wish: Wish, rates: Rates | None = None, latency: float = 0.1) -> Plan:
    """Machines, hours and bytes for a wish.

    Args:
        wish: what is to be had.
        rates: of one core; those measured here if not given.
        latency: seconds that the scan of a query may take on its shard.
    """
    known = rates or Rates()
    rate = known.vectors if wish.vectors else known.images
    needed = math.ceil(wish.items / (rate * wish.hours * 3600))
    cores = wish.workers or needed
    encode = wish.start_seconds + wish.items / (rate * cores)
    code = wish.bits / 8
    row = code + known.row_bytes + (2 * wish.dim if wish.half else 0)
    item_bytes = 4 * wish.dim if wish.vectors else known.image_bytes
    shards, replicas, service = _search_cores(wish, known, latency)
    waits = simulated(wish.qps / replicas, service, shards)
    machines = math.ceil(shards * replicas / wish.cores)
    return Plan(
        encode_cores=cores,
        encode_machines=math.ceil(cores / wish.cores),
        encode_hours=encode / 3600,
        index_hours=wish.items / (known.indexed * cores) / 3600,
        code_bytes=wish.items * code,
        table_bytes=wish.items * row,
        read_bytes=wish.items * item_bytes,
        requests=_requests(wish, known),
        search_shards=shards,
        search_machines=machines,
        search_replicas=replicas,
        memory_bytes=wish.items * code * min(wish.cores / shards, 1.0),
        query_seconds=service,
        median_seconds=float(np.quantile(waits, 0.5)),
        slow_seconds=float(np.quantile(waits, 0.99)),
    )


def _requests(wish: Wish, rates: Rates) -> float:
    """One to read each image, or each block of vectors; one to write each block."""
    blocks = wish.items / rates.request_rows
    return (blocks if wish.vectors else wish.items) + blocks


def _search_cores(wish: Wish, rates: Rates, latency: float) -> tuple[int, int, float]:
    """Shards, copies of them, and seconds that a shard works on a query."""
    compared = wish.items * wish.probed
    rate = rates.codes * 64 / wish.bits
    shards = max(1, math.ceil(compared / (rate * latency)))
    service = rates.query + compared / (shards * rate)
    replicas = max(1, math.ceil(wish.qps * service / FULL))
    return shards, replicas, service


def simulated(
    qps: float, service: float, shards: int, queries: int = QUERIES, seed: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds until each query is answered, where shards work on one query at a time.

    Queries come at random (a Poisson process); each is asked of all shards and waits
    for the slowest. The time of a shard varies by a tenth from query to query.

    Args:
        qps: queries a second.
        service: mean seconds a shard works on a query.
        shards: that a query is asked of; more than 64 are simulated as 64, whose
            slowest is nearly as slow.
        queries: how many.
        seed: of the chances.

    Example:
        >>> waits = simulated(qps=1, service=0.01, shards=1)
        >>> bool(0.009 < np.median(waits) < 0.011)
        True
    """
    generator = np.random.default_rng(seed)
    coming = np.cumsum(generator.exponential(1 / qps, queries))
    width = min(shards, 64)
    free = np.zeros(width)
    waits = np.empty(queries)
    spread = generator.normal(1.0, 0.1, (queries, width)).clip(0.5, 2.0)
    for number, now in enumerate(coming):
        free = np.maximum(free, now) + service * spread[number]
        waits[number] = free.max() - now
    return waits


def makespan(seconds: list[float], workers: int, start: float = 0.0) -> float:
    """When the last of some jobs is done, each given to the first worker that is free.

    Example:
        >>> makespan([3.0, 1.0, 1.0, 1.0], workers=2)
        3.0
    """
    free = [start] * workers
    heapq.heapify(free)
    for one in seconds:
        heapq.heappush(free, heapq.heappop(free) + one)
    return max(free)
