"""Files of vectors and tables: headers that lie, pickles, odd numbers."""

import io
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch
from pyarrow import parquet

from gradsnap.data import open_dataset
from gradsnap.data.cifar10 import open_cifar10
from gradsnap.errors import GradsnapError
from storm import commands, damage, good
from storm.kind import Kind
from storm.outcomes import CodeExecuted, WrongAnswer

ENDS = (".npy", ".npz", ".fvecs", ".bvecs", ".parquet", ".csv")


class Bomb:
    """What would run something if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return explode, ()


def explode() -> None:
    """Where a pickle would lead."""
    raise CodeExecuted("a pickle ran")


class VectorFiles(Kind):
    """Vectors in every format, damaged or crafted: rows, or refused."""

    name = "vector-files"
    weight = 34.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        own = good.coder("pq")
        own.save(place / "coder.safetensors")
        good.empty("exhaustive", own).add(good.rows(20)).save(place / "rows.index")

    def attempt(self, numbers: random.Random, place: Path) -> str:
        path = place / f"rows{numbers.choice(ENDS)}"
        whole = good.rows(12, numbers.randrange(99)).numpy()
        path.write_bytes(_written(path.suffix, whole, numbers))
        if numbers.randrange(10) == 0:
            (place / "rows.labels.npy").write_bytes(_npy(numbers))
        if numbers.randrange(8) == 0:
            return commands.outcome(self._by_command(path, numbers))
        try:
            dataset = open_dataset(str(path), labelled=bool(numbers.randrange(2)))
            rows = dataset.items.batch(torch.arange(min(len(dataset), 50)))
        except GradsnapError:
            return "refused"
        if not bool(rows.isfinite().all()):
            raise WrongAnswer("rows that are not finite")
        return "answered"

    def _by_command(self, path: Path, numbers: random.Random) -> commands.Said:
        out = path.parent / "out"
        words: list[tuple[Any, ...]] = [
            ("encode", self.place / "coder.safetensors", path, "--out", out),
            ("search", self.place / "rows.index", path, "-k", 3),
            ("index", path, "--out", out, "--bits", 8),
        ]
        return commands.run(*numbers.choice(words))


def _written(suffix: str, x: Any, numbers: random.Random) -> bytes:
    data = _good(suffix, x, numbers)
    way = numbers.randrange(4)
    if way == 0:
        return _crafted(suffix, numbers)
    return damage.damaged(data, numbers) if way < 3 else data


def _good(suffix: str, x: Any, numbers: random.Random) -> bytes:
    file = io.BytesIO()
    strange = numbers.choice((1.0, 1e30, 1e-40, np.nan, np.inf, 0.0))
    x = x.astype(numbers.choice((np.float32, np.float64, np.float16)))
    with np.errstate(all="ignore"):
        x[numbers.randrange(len(x))] *= strange
    if suffix == ".npy":
        np.save(file, np.asfortranarray(x) if numbers.randrange(2) else x)
    elif suffix == ".npz":
        np.savez(file, vectors=x, labels=np.arange(len(x)) % 3)
    elif suffix in (".fvecs", ".bvecs"):
        number = np.float32 if suffix == ".fvecs" else np.uint8
        with np.errstate(all="ignore"):
            for row in x.astype(number):
                file.write(np.int32(len(row)).tobytes() + row.tobytes())
    elif suffix == ".parquet":
        columns = {"vectors": list(x.astype(np.float32)), "labels": [1] * len(x)}
        parquet.write_table(pyarrow.table(columns), file)
    else:
        file.write(b"image,label\n" + b"a.jpg,cat\n" * 3)
    return file.getvalue()


def _npy(numbers: random.Random) -> bytes:
    """An array file whose header says anything."""
    shape = numbers.choice(
        ["(-1, 4)", "(99999999999, 4)", "(2**70,)", "(3, 4, 5)", "()", "(0, 4)", "3",
         "(True, 4)", "(1.5, 4)", "(12345678901234567890, 2)", "(4, 0)", "('a', 2)"]
    )  # fmt: skip
    kind = numbers.choice(
        ["'<f4'", "'|O'", "'<U9'", "'<M8[ns]'", "'<c8'", "[('a','<f4')]", "'|V0'",
         "'<f4'\0", "'x'", "None", "'|S0'"]
    )  # fmt: skip
    deep = numbers.choice(["(" * 9000, "{" * 9000, "-" * 9000 + "1", "[" * 9000])
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}"
    text = numbers.choice(
        [text, text, text, deep, "", "None", "{}", "__import__('os')"]
    )
    head = text.encode("latin1") + b"\n"
    size = len(head) if numbers.randrange(4) else numbers.choice((0, 65535))
    return b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little") + head + bytes(64)


def _crafted(suffix: str, numbers: random.Random) -> bytes:
    file = io.BytesIO()
    if suffix == ".npy":
        if numbers.randrange(3) == 0:
            np.save(file, np.array([Bomb()], dtype=object), allow_pickle=True)
            return file.getvalue()
        return _npy(numbers)
    if suffix == ".npz":
        with zipfile.ZipFile(file, "w", numbers.choice((0, 8))) as archive:
            for name in ("vectors.npy", "labels.npy", "held_out.npy", "../x.npy"):
                if numbers.randrange(2):
                    archive.writestr(name, _npy(numbers))
        return file.getvalue()
    ways: list[Callable[[], bytes]] = [
        lambda: (
            numbers.choice((-1, 0, 2**31 - 1, 4)).to_bytes(4, "little", signed=True)
            + bytes(16)
        ),
        lambda: pickle.dumps(Bomb()),
        lambda: b"PAR1" + numbers.randbytes(40) + b"PAR1",
        lambda: (
            b"image,label\n" + b'"' * numbers.randrange(1, 9) + b"../../x,\x1b[2J\n"
        ),
        lambda: b"image,label\n" + b"a" * 200_000 + b",1\n",
        lambda: b"\xff\xfe\x00\x01",
        lambda: b"image\n" * 3,
        lambda: b"\0" * 64,
    ]
    return numbers.choice(ways)()


class Pickles(Kind):
    """The one format of others that is a pickle: nothing in it ever runs."""

    name = "pickles"
    weight = 8.0

    def attempt(self, numbers: random.Random, place: Path) -> str:
        folder = place / "cifar-10-batches-py"
        folder.mkdir()
        rows = np.zeros((4, 3072), dtype=np.uint8)
        content: Any = {b"data": rows, b"labels": [0, 1, 2, 3]}
        data = pickle.dumps(content, protocol=numbers.choice((2, 4, 5)))
        names = [f"data_batch_{number}" for number in range(1, 6)]
        for name in (*names, "test_batch"):
            (folder / name).write_bytes(data)
        way = numbers.randrange(3)
        if way == 0:
            data = pickle.dumps(numbers.choice((Bomb(), [Bomb()], {b"data": Bomb()})))
        elif way == 1:
            data = damage.damaged(data, numbers)
        (folder / numbers.choice(names)).write_bytes(data)
        try:
            open_cifar10(folder)
        except GradsnapError:
            return "refused"
        return "answered"
