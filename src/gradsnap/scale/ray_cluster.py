"""Ray: a cluster that is there, or a small one on this machine for a while."""

import contextlib
import logging
import os
import tempfile
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradsnap.errors import GradsnapError, InputError
from gradsnap.extras import require_ray
from gradsnap.scale.workers import Job, Make, Result, ThisProcess, Workers, check_on

OBJECT_STORE = 256 * 2**20
"""Bytes that processes of a cluster on this machine share: results are small."""

AHEAD = 2
"""Jobs a worker has at once, so that it never waits for the next."""

WINDOW = 8
"""Jobs for each worker that may be done before an earlier one: what a crash costs."""

TRIES = 3
"""How often a job is begun again by a worker that died of it."""

STARTS = 3
"""How often a cluster on this machine is tried to start: it must within 30 seconds,
which a busy machine may miss."""

OWN_CLUSTER = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray's is 15: any other program would come first
    # Off, processes talk over loopback and nobody else can reach them, as Ray does on
    # Windows and macOS by itself. It takes no other address of us: 127.0.0.1 becomes
    # that of the network. Read when Ray is imported.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""The environment of a cluster on this machine."""


@contextlib.contextmanager
def workers_on(on: str | None, count: int | None = None) -> Iterator[Workers]:
    """Workers where the user said: None is this process.

    Args:
        on: ``ray``: the cluster of RAY_ADDRESS, or else one on this machine, which is
            stopped at the end; ``ray://HOST:PORT``: that cluster.
        count: of workers; one a core if not given.
    """
    check_on(on)
    if on is None:
        yield ThisProcess()
        return
    with joined_ray(on, count):
        yield RayWorkers(count or _cores())


@contextlib.contextmanager
def joined_ray(on: str, count: int | None = None) -> Iterator[Any]:
    """The module ``ray``, connected; what was started here is stopped here."""
    address = on if on.startswith("ray://") else os.environ.get("RAY_ADDRESS")
    if address is None:
        for name, value in OWN_CLUSTER.items():
            os.environ.setdefault(name, value)
    ray = require_ray()
    if ray.is_initialized():
        yield ray
        return
    with tempfile.TemporaryDirectory(prefix="gs", ignore_cleanup_errors=True) as folder:
        try:
            with warnings.catch_warnings():
                # Ray starts processes by fork and exec, which does Lance no harm.
                warnings.filterwarnings("ignore", message="lance is not fork-safe")
                _start(ray, address, count, folder)
                yield ray
        finally:
            ray.shutdown()


def _start(ray: Any, address: str | None, count: int | None, folder: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is not None:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(
                f"no Ray cluster answers at {address}: {error}; one that asks for a "
                "token wants RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=FILE"
            ) from error
        return
    own = {
        "num_cpus": count or os.cpu_count(),
        "object_store_memory": OBJECT_STORE,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": folder,
    }
    for attempt in range(STARTS):
        try:
            ray.init(address="local", **own, **quiet)
            return
        except Exception as error:  # Ray raises nothing narrower
            ray.shutdown()
            if attempt == STARTS - 1:
                raise InputError(f"Ray did not start here: {error}") from error


def _cores() -> int:
    """Cores of the cluster."""
    return max(1, int(require_ray().cluster_resources().get("CPU", 1)))


@dataclass(frozen=True)
class RayWorkers:
    """Actors with a core each, and a GPU where the cluster has one for each.

    An actor that dies is started again by Ray and does again what it had begun.

    Args:
        count: of actors.
    """

    count: int

    def run(
        self, make: Make[Job, Result], known: Any, jobs: Sequence[Job]
    ) -> Iterator[Result]:
        """What comes of each job, in the order of the jobs."""
        ray = require_ray()
        shared = ray.put(known)
        number = min(self.count, max(len(jobs), 1))
        here = os.getcwd()
        actors = [self._actor(ray).remote(make, [shared], here) for _ in range(number)]
        try:
            yield from _in_order(ray, actors, jobs)
        finally:
            for actor in actors:
                ray.kill(actor)

    def _actor(self, ray: Any) -> Any:
        gpus = 1 if ray.cluster_resources().get("GPU", 0) >= self.count else 0
        return ray.remote(
            num_cpus=1, num_gpus=gpus, max_restarts=TRIES, max_task_retries=TRIES
        )(Holder)


class Holder:
    """An actor: makes its work once, and does one job after the other.

    Args:
        make: makes the work of what it has to know.
        shared: a reference to that.
        folder: where the command was given, to which paths are relative.
    """

    def __init__(self, make: Any, shared: list[Any], folder: str) -> None:
        from gradsnap.memory import keep_freed_memory

        keep_freed_memory()
        if os.path.isdir(folder):
            os.chdir(folder)
        self.work = make(require_ray().get(shared[0]))

    def do(self, job: Any) -> Any:
        """What comes of a job; an error of ours is handed back as it is."""
        try:
            return self.work(job)
        except GradsnapError as error:
            return Failed(type(error), str(error))


@dataclass(frozen=True)
class Failed:
    """An error of ours that a worker met."""

    kind: type[GradsnapError]
    sentence: str


def _in_order(ray: Any, actors: list[Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """Keeps every actor busy; gives results in the order of the jobs."""
    free = deque(actor for _ in range(AHEAD) for actor in actors)
    running: dict[Any, tuple[int, Any]] = {}
    done: dict[int, Any] = {}
    begun = given = 0
    while given < len(jobs):
        while free and begun < min(len(jobs), given + WINDOW * len(actors)):
            actor = free.popleft()
            running[actor.do.remote(jobs[begun])] = begun, actor
            begun += 1
        ready, _ = ray.wait(list(running), num_returns=1)
        for one in ready:
            number, actor = running.pop(one)
            free.append(actor)
            done[number] = _result(ray, one, number)
        while given in done:
            yield done.pop(given)
            given += 1


def _result(ray: Any, reference: Any, number: int) -> Any:
    try:
        found = ray.get(reference)
    except ray.exceptions.RayActorError as error:
        raise InputError(
            f"part {number} ended {TRIES + 1} workers, and is given up: {error}"
        ) from error
    if isinstance(found, Failed):
        raise found.kind(found.sentence)
    return found
