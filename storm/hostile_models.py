"""Models, coders and checkpoints: damaged by accident, or sealed again afterwards."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import gradsnap as gs
from gradsnap.coders import CODERS
from gradsnap.errors import GradsnapError
from gradsnap.files import write_tensors
from storm import commands, damage, good
from storm.kind import Kind
from storm.outcomes import WrongAnswer

TRAINING = (
    "run.steps=4", "run.batch_size=16", "run.validate_every=2", "network.dim=8",
    "run.checkpoint_every=2", "coder.codebook_size=16", "data.validation=0.2",
)  # fmt: skip
SLOW_FITS = ("aq", "cq", "fasthash", "grvq")
"""Coders whose files look like others', and whose fits take seconds."""


def labelled_vectors(path: Path) -> Path:
    """A file of labelled vectors, small enough to train on in a moment."""
    x = good.rows(80, 5)
    np.savez(path, vectors=x.numpy(), labels=np.arange(80) % 4)
    return path


def trained(place: Path) -> Path:
    """A model folder, with the checkpoints of its run."""
    source = labelled_vectors(place / "rows.npz")
    said = commands.run(
        "train", source, "--bits", 8, "--out", place / "model", "--no-beside-plain",
        "--quiet", *TRAINING,
    )  # fmt: skip
    if said.code:
        raise RuntimeError(said.err)
    return place / "model"


class _Models(Kind):
    """Files of coders, and a model folder that was trained here."""

    weight = 24.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.model = trained(place)
        self.coders = [
            _saved(kind, place / f"{kind}.safetensors")
            for kind in CODERS
            if kind not in SLOW_FITS
        ]
        self.query = good.rows(6, 9)
        self.codes = {path: self.asked(path) for path in [*self.coders, self.model]}

    def asked(self, path: Path) -> Any:
        """The codes that a model or coder makes."""
        model = gs.load(path)
        return model.encode(self.query[:, : model.coder.dim]).tolist()

    def copied(self, numbers: random.Random, place: Path) -> tuple[Path, Path]:
        """A good file or folder, and a copy to be made bad."""
        one = numbers.choice([*self.coders, *[self.model] * 4])
        (shutil.copytree if one.is_dir() else shutil.copy)(one, place / one.name)
        return one, place / one.name


def _saved(kind: str, path: Path) -> Path:
    made = CODERS[kind].of_bits(good.DIM, good.DIM)
    labels = torch.arange(200) % 4
    made.fit(good.rows(200), labels).save(path)
    return path


class DamagedModels(_Models):
    """Every file of a model, and coders: refused, or the same codes."""

    name = "damaged-models"
    weight = 20.0

    def attempt(self, numbers: random.Random, place: Path) -> str:
        one, copy = self.copied(numbers, place)
        path = copy
        if copy.is_dir():
            path = copy / numbers.choice(
                ("weights.safetensors", "weights.safetensors", "card.json")
            )
        if numbers.randrange(8) == 0:
            damage.displace(path, numbers)
        else:
            path.write_bytes(damage.damaged(path.read_bytes(), numbers))
        if numbers.randrange(10) == 0:
            commands.run("info", copy)
        try:
            codes = self.asked(copy)
        except GradsnapError:
            return "refused"
        if codes != self.codes[one]:
            raise WrongAnswer(f"{path.name} was changed, and believed")
        return "answered"


class SealedModels(_Models):
    """Words and tensors changed under a right checksum: refused, or codes."""

    name = "sealed-models"

    def attempt(self, numbers: random.Random, place: Path) -> str:
        _, copy = self.copied(numbers, place)
        file = copy / "weights.safetensors" if copy.is_dir() else copy
        reseal(file, numbers)
        if numbers.randrange(10) == 0:
            commands.run("info", copy)
        try:
            self.asked(copy)
        except GradsnapError:
            return "refused"
        return "answered"


def reseal(file: Path, numbers: random.Random) -> None:
    """Changes words or tensors of a file and writes it as we write files."""
    tensors, words = load_file(file), _words(file)
    for _ in range(numbers.choice((1, 1, 2))):
        if numbers.randrange(2):
            _change_word(words, numbers)
        else:
            _change_tensor(tensors, numbers)
    words = {str(name): str(word) for name, word in words.items()}
    try:
        if numbers.randrange(4) == 0:  # as files of earlier versions: no checksum
            save_file(tensors, file, words)
        else:
            write_tensors(file, tensors, words)
    except UnicodeEncodeError:  # no file can say it
        file.write_bytes(b"")


def _words(file: Path) -> dict[str, str]:
    with safe_open(file, framework="pt") as opened:
        words: dict[str, str] = opened.metadata()
    words.pop("sha256", None)
    return words


def _change_word(words: dict[str, str], numbers: random.Random) -> None:
    name = numbers.choice(sorted(words))
    if numbers.randrange(4) == 0:
        words[name] = str(numbers.choice(damage.VALUES))
    elif numbers.randrange(10) == 0:
        words[name] = '{"a":' * 10**5
    else:
        try:
            content = json.loads(words[name])
        except (ValueError, RecursionError):
            words[name] = numbers.choice([*CODERS, "os:system", "gradsnap-coder-1"])
            return
        if isinstance(content, dict):
            damage.changed_value(content, numbers)
            words[name] = json.dumps(content)


def _change_tensor(tensors: dict[str, torch.Tensor], numbers: random.Random) -> None:
    if not tensors:
        return
    name = numbers.choice(sorted(tensors))
    value = tensors[name]
    changes: list[Callable[[], torch.Tensor]] = [
        lambda: value.flatten()[:-1],
        lambda: value[None],
        lambda: torch.cat([value.flatten(), value.flatten()]),
        lambda: value.to(torch.float64),
        lambda: value.to(torch.int64),
        lambda: value.to(torch.bfloat16),
        lambda: torch.full_like(value.float(), float("nan")),
        lambda: torch.full_like(value.float(), 1e38),
        lambda: torch.zeros_like(value),
        lambda: -value.to(torch.float32),
        lambda: torch.zeros(0),
        lambda: torch.full_like(value.long(), -1),
    ]
    way = numbers.randrange(len(changes) + 2)
    if way < len(changes):
        tensors[name] = changes[way]().contiguous().clone()
    elif way == len(changes):
        del tensors[name]
    else:
        tensors[str(numbers.choice(damage.VALUES))[:50] or "x"] = value.clone()


class Checkpoints(_Models):
    """A run that stopped, its files damaged or sealed: refused, or the same end."""

    name = "checkpoints"
    weight = 34.0
    patience = 30.0

    def attempt(self, numbers: random.Random, place: Path) -> str:
        folder = place / "model"
        shutil.copytree(self.model, folder)
        weights = load_file(folder / "weights.safetensors")
        (folder / "weights.safetensors").unlink()
        files = [*sorted(folder.glob("checkpoints/*")), folder / "log.jsonl"]
        path = numbers.choice([one for one in files if one.is_file()])
        sealed = path.suffix == ".safetensors" and numbers.randrange(2)
        if sealed:
            reseal(path, numbers)
        else:
            path.write_bytes(damage.damaged(path.read_bytes(), numbers))
        said = commands.run(
            "train", self.place / "rows.npz", "--bits", 8, "--out", folder,
            "--no-beside-plain", "--quiet", *TRAINING,
        )  # fmt: skip
        if said.code == 0 and not sealed:
            ends = load_file(folder / "weights.safetensors")
            if any(not torch.equal(ends[name], weights[name]) for name in weights):
                raise WrongAnswer(f"{path.name} was changed, the run ends elsewhere")
        return commands.outcome(said)
