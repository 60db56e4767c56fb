"""Small indexes to serve, of pictures and of vectors; and a server in process."""

import asyncio
import io
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.index import ExhaustiveIndex, HalfPrecision, Index, InvertedIndex
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.networks import build_network
from tests.conftest import DIM, clustered, fitted

SIDE = 8
EVIL = "<img src=x onerror=alert(1)>.png"
"""A name that is HTML."""


def vector_index(rows: int = 200, lists: bool = False) -> Index:
    """Numbers for ids, a label and a year for each; half-precision floats are kept."""
    x = clustered(rows)
    refiner = HalfPrecision(DIM)
    index: Index
    if lists:
        index = InvertedIndex.of_size(
            fitted("pq"), rows, num_lists=8, refiner=refiner
        ).fit(x)
    else:
        index = ExhaustiveIndex(fitted("pq"), refiner=refiner)
    labels = ["cat" if place % 3 else "dog" for place in range(rows)]
    years = [2000 + place % 20 for place in range(rows)]
    return index.add(x, metadata={"label": labels, "year": years})


def picture(seed: int, side: int = SIDE) -> bytes:
    """A PNG file of seeded noise around one grey."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256) // 2 + rng.integers(0, 128, (side, side))
    out = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


def photo_index(folder: Path, count: int = 40) -> Path:
    """An index folder of pictures, with its model; one has a name that is HTML."""
    root = folder / "photos"
    names = [EVIL, *(f"{'ab'[n % 2]}/{n}.png" for n in range(1, count))]
    for seed, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(seed))
    model, x = _model(root, names)
    model.save(folder / "model")
    index = ExhaustiveIndex(model.coder, refiner=HalfPrecision(model.coder.dim))
    index.roots = index.roots.with_folder(root)
    index.notes["model"] = str(folder / "model")
    words: dict[str, Any] = {
        "label": ["ab"[n % 2] for n in range(count)],
        "size": [float(n) for n in range(count)],
    }
    half = count // 2
    for part in (slice(0, half), slice(half, count)):
        some = {name: column[part] for name, column in words.items()}
        index.add(x[part], names[part], some)
        index.save(folder / "photos.index")
    return folder / "photos.index"


def _model(root: Path, names: list[str]) -> tuple[Model, Tensor]:
    options: dict[str, Any] = {"dim": DIM, "side": SIDE, "channels": 1}
    network = build_network("small", **options).requires_grad_(False).eval()
    spec = NetworkSpec("small", options, side=SIDE, channels=1)
    coder = ProductQuantizer(DIM, 4, 8)
    model = Model(network, coder, spec)
    pixels = torch.cat([model.decode_image(root / name) for name in names])
    x = model.embed(pixels)
    coder.fit(x)
    return model, x


class InProcess:
    """An application on an event loop of its own, asked without a socket.

    Args:
        app: the application; its lifespan is that of the ``with`` block.
        host: what requests call it.
    """

    def __init__(self, app: Any, host: str = "127.0.0.1:8000") -> None:
        self.app, self.url = app, f"http://{host}"
        self.wait = 60.0
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> "InProcess":
        import httpx

        self._thread.start()
        self._life = self.app.router.lifespan_context(self.app)
        self.run(self._life.__aenter__())
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(
            transport=transport, base_url=self.url, timeout=600
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.run(self.http.aclose())
        self.run(self._life.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives, run on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(self.wait)

    def request(self, method: str, path: str, **options: Any) -> Any:
        """One request and its response."""
        return self.run(self.http.request(method, path, **options))

    def get(self, path: str, **options: Any) -> Any:
        """Reads."""
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> Any:
        """Asks or writes."""
        return self.request("POST", path, **options)

    def delete(self, path: str, **options: Any) -> Any:
        """Removes."""
        return self.request("DELETE", path, **options)
