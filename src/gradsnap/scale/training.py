"""Training by processes of a Ray cluster, which meet as torchrun's do.

When one of them dies all are started again, and go on from the last checkpoint.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsnap.errors import GradsnapError, InputError
from gradsnap.inference.model import WEIGHTS
from gradsnap.scale.ray_cluster import TRIES, Failed, joined_ray
from gradsnap.training import TrainingConfig, run_beside_plain, run_training


@dataclass(frozen=True)
class Run:
    """What every process has to know."""

    config: TrainingConfig
    out: str
    """The model folder, absolute; all nodes must share it."""
    folder: str
    """Where the command was given: paths are relative to it."""
    tensorboard: bool = False
    network_from: str | None = None
    beside_plain: bool = True

    def train(self) -> None:
        """Trains as one of the processes that the environment tells of."""
        run = run_beside_plain if self.beside_plain else run_training
        run(
            self.config,
            Path(self.out),
            tensorboard=self.tensorboard,
            network_from=self.network_from,
        )


class Trainer:
    """An actor: one of the processes."""

    def address(self) -> tuple[str, int]:
        """Where others can meet at this process: its node, and a free port."""
        from ray import util

        with socket.socket() as free:
            free.bind(("", 0))
            host: str = util.get_node_ip_address()  # type: ignore[no-untyped-call]
            return host, int(free.getsockname()[1])

    def train(self, run: Run, place: dict[str, str]) -> Failed | None:
        """Trains; an error of ours is handed back as it is."""
        os.environ.update(place)
        if os.path.isdir(run.folder):
            os.chdir(run.folder)
        try:
            run.train()
        except GradsnapError as error:
            return Failed(type(error), str(error))
        return None


def train_on_ray(on: str, run: Run, count: int | None = None) -> None:
    """Trains over processes of a cluster, with a core each, and a GPU if it has them.

    Args:
        on: ``ray`` or ``ray://HOST:PORT``.
        run: what is trained.
        count: of processes; one a core or GPU of the cluster if not given.

    Raises:
        InputError: processes died more often than they are started again.
    """
    with joined_ray(on, count) as ray:
        has = ray.cluster_resources()
        gpus = int(has.get("GPU", 0))
        world = count or gpus or max(1, int(has.get("CPU", 1)))
        made = ray.remote(num_cpus=1, num_gpus=1 if gpus >= world else 0)(Trainer)
        for attempt in range(TRIES + 1):
            try:
                _train_once(ray, [made.remote() for _ in range(world)], run)
                return
            except ray.exceptions.RayError as error:
                if (Path(run.out) / WEIGHTS).is_file():
                    return  # it died when all was written
                if attempt == TRIES:
                    raise InputError(
                        f"processes died in {TRIES + 1} attempts: {error}"
                    ) from error


def _train_once(ray: Any, actors: list[Any], run: Run) -> None:
    """One attempt; ends all processes when one dies."""
    try:
        host, port = ray.get(actors[0].address.remote())
        shared = {"MASTER_ADDR": host, "MASTER_PORT": str(port), "LOCAL_RANK": "0"}
        world = {"WORLD_SIZE": str(len(actors))}
        waiting = [
            actor.train.remote(run, {**shared, **world, "RANK": str(rank)})
            for rank, actor in enumerate(actors)
        ]
        while waiting:
            done, waiting = ray.wait(waiting)
            failed = ray.get(done[0])
            if failed is not None:
                raise failed.kind(failed.sentence)
    finally:
        for actor in actors:
            ray.kill(actor)
