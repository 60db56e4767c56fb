"""``gradsnap serve`` under load, beside the library's own batches; needs wrk.

A million codes of 64 bits, vector queries from 1 to 256 clients for a minute each,
every answer compared with the library's. Then one picture at a time over the bare cost
of decoding, embedding and search; and memory over 100,000 requests.
"""

import contextlib
import http.client
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import gradsnap as gs
from benchmarks.report import Bar, Line, Row, say, skipped
from benchmarks.vectors import Setting
from gradsnap.inference.engines import engine_for
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.networks import build_network

DIM, K, QUERIES = 64, 10, 512
CLIENTS = (1, 16, 256)
QUEUE = 1024
BATCH = 64
LUA = Path(__file__).with_suffix(".lua")


def run(setting: Setting) -> Iterator[Line]:
    """Load, pictures, memory."""
    if shutil.which("wrk") is None:
        yield skipped("serving", "wrk is not installed")
        return
    with tempfile.TemporaryDirectory() as home:
        yield from _load(Path(home), setting)
        yield from _pictures(Path(home), setting)
        yield from _memory(Path(home), setting)


def _index(folder: Path, count: int) -> gs.index.Index:
    """Codes drawn evenly, under codebooks of Gaussian rows."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(8192, DIM, generator=generator)
    index = gs.ExhaustiveIndex(gs.ProductQuantizer(DIM, 8, 256).fit(rows))
    codes = torch.randint(256, (count, 8), generator=generator, dtype=torch.uint8)
    index.add_codes(codes).save(folder)
    return gs.load_index(folder)


def _questions(index: gs.index.Index, home: Path) -> torch.Tensor:
    """Queries (q, dim), written with their answers for wrk."""
    queries = torch.randn(QUERIES, DIM, generator=torch.Generator().manual_seed(1))
    (home / "queries.bin").write_bytes(queries.numpy().astype("<f4").tobytes())
    found = index.search(queries, K).ids.tolist()
    lines = [" ".join(map(str, row)) for row in found]
    (home / "expected.txt").write_text("\n".join(lines) + "\n")
    (home / "sizes.txt").write_text(f"{QUERIES} {4 * DIM}\n")
    return queries


def _library(index: gs.index.Index, queries: torch.Tensor, seconds: float) -> float:
    """Queries a second of the library by batches, in this process."""
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        index.search(queries[done % QUERIES :][:BATCH], K)
        done += BATCH
    return done / (time.perf_counter() - started)


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[tuple[int, int]]:
    """A server process: its port and its id."""
    command = [sys.executable, "-m", "gradsnap", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--queue", str(QUEUE)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        found = re.search(r":(\d+) \(", said)
        assert found is not None, said
        port = int(found[1])
        while not _answers(port):
            time.sleep(0.2)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _answers(port: int) -> bool:
    try:
        return _ask(port, "GET", "/ready")[0] == 200
    except OSError:
        return False


def _ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request(method, path, body, {"content-type": "image/jpeg"})
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def _wrk(port: int, home: Path, clients: int, seconds: int) -> dict[str, Any]:
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "60s"]
    command += ["-s", str(LUA), f"http://127.0.0.1:{port}", "--", str(home)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = next(line for line in said.splitlines() if line.startswith("FOUND "))
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


def _load(home: Path, setting: Setting) -> Iterator[Line]:
    count, seconds = (20_000, 2) if setting.quick else (1_000_000, 60)
    index = _index(home / "million.index", count)
    queries = _questions(index, home)
    _library(index, queries, 1)
    with _served(home / "million.index") as (port, _):
        for clients in CLIENTS:
            say(f"{clients} clients for {seconds} s")
            before = _library(index, queries, seconds / 12)
            found = _wrk(port, home, clients, seconds)
            after = _library(index, queries, seconds / 12)
            yield from _loaded(count, clients, found, (before + after) / 2)


def _loaded(
    count: int, clients: int, found: dict[str, Any], library: float
) -> Iterator[Row]:
    rate = found["right"] / found["seconds"]
    what = f"{count:,} codes, {clients} clients"
    bar = Bar("≥", 0.5) if clients >= BATCH else None
    told = (
        f"p50 {found['p50']:.0f} ms, {found['right']:,} right, {found['busy']} × 429; "
        f"theirs: the library, batches of {BATCH}"
    )
    yield Row(
        f"{what}: queries a second", rate, library, "/s", rate / library, bar, note=told
    )
    longest = 1000 * (QUEUE + 2 * BATCH) / rate
    yield Row(
        f"{what}: p99, and what a full queue takes",
        found["p99"],
        longest,
        "ms",
        found["p99"] / longest,
        Bar("≤", 1.0),
    )
    bad = found["wrong"] + found["failed"]
    yield Row(f"{what}: wrong or failed", bad, bar=Bar("≤", 0))


def _memory(home: Path, setting: Setting) -> Iterator[Line]:
    """Resident memory after a first few thousand requests, and after 100,000 more."""
    index = _index(home / "small.index", 10_000)
    _questions(index, home)
    wanted = 2_000 if setting.quick else 100_000
    with _served(home / "small.index") as (port, pid):
        _wrk(port, home, 16, 2 if setting.quick else 10)
        before, done = _resident(pid), 0
        while done < wanted:
            found = _wrk(port, home, 16, 2 if setting.quick else 15)
            done += found["right"]
            say(f"{done:,} requests")
        after = _resident(pid)
    yield Row(
        f"resident memory after {done:,} requests",
        after,
        before,
        "MiB",
        after / before,
        Bar("≤", 1.02),
        note="theirs: after the first seconds",
    )


def _resident(pid: int) -> float:
    """MiB that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0


def _picture() -> bytes:
    """A JPEG of the size cameras' previews have, smooth with some noise."""
    generator = np.random.default_rng(0)
    small = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC)
    pixels = np.asarray(image).astype(int) + generator.integers(-8, 9, (375, 500, 1))
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def _picture_index(home: Path, side: int) -> tuple[Model, gs.index.Index]:
    """A fresh network, and an index of vectors that knows it."""
    options: dict[str, Any] = {"dim": DIM, "side": side}
    network = build_network("efficientnet-lite0", **options).requires_grad_(False)
    rows = torch.randn(8192, DIM, generator=torch.Generator().manual_seed(0))
    coder = gs.ProductQuantizer(DIM, 8, 256).fit(rows)
    spec = NetworkSpec("efficientnet-lite0", options, side, 3)
    model = Model(network.eval(), coder, spec)
    model.save(home / "model")
    index = gs.ExhaustiveIndex(coder).add(rows)
    index.notes["model"] = str(home / "model")
    index.save(home / "pictures.index")
    return model, index


def _pictures(home: Path, setting: Setting) -> Iterator[Line]:
    """One picture after the other: the whole request over its bare cost."""
    side = 64 if setting.quick else 224
    model, index = _picture_index(home, side)
    data, file = _picture(), home / "query.jpg"
    file.write_bytes(data)
    engine = engine_for(model.network, 2**31, (3, side, side))

    def bare() -> None:
        with torch.no_grad():
            index.search(engine(model.decode_image(file)), K)

    with _served(home / "pictures.index") as (port, _):
        line = http.client.HTTPConnection("127.0.0.1", port)

        def whole() -> None:
            line.request("POST", "/search?k=10", data, {"content-type": "image/jpeg"})
            answer = line.getresponse()
            answer.read()
            assert answer.status == 200

        ours, theirs = _medians(whole, bare, 10 if setting.quick else 300)
        line.close()
    yield Row(
        "a picture, the whole request",
        ours,
        theirs,
        "ms",
        ours / theirs,
        Bar("≤", 1.3),
        note="median; theirs: decoding, embedding and search by the library",
    )


def _medians(whole: Any, bare: Any, times: int) -> tuple[float, float]:
    """Median milliseconds of both, which take turns."""
    took: tuple[list[float], list[float]] = ([], [])
    for turn in range(times + 5):
        for call, kept in zip((whole, bare), took, strict=True):
            started = time.perf_counter()
            call()
            if turn >= 5:
                kept.append(1000 * (time.perf_counter() - started))
    return statistics.median(took[0]), statistics.median(took[1])
