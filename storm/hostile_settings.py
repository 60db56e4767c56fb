"""Settings and words of the command line that nobody meant."""

import random
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gradsnap.coders import CODERS
from gradsnap.errors import GradsnapError
from gradsnap.layers import LAYERS
from gradsnap.losses import LOSSES
from gradsnap.methods import METHODS
from gradsnap.networks import NETWORKS
from gradsnap.registry import options_of
from gradsnap.training import TrainingConfig, make_config, read_toml
from storm import commands, damage, good
from storm.hostile_models import TRAINING, labelled_vectors
from storm.kind import Kind

WORDS = (
    "0", "1", "-1", "2", "3", "7", "16", "1e9", "0.5", "-0.0", "1e-300", "nan", "inf",
    "-inf", "99999999999999999999", "100000", "true", "false", "[]", "{}", "[1,2]",
    '{margin="x"}', "{margin=-1}", "{margin=nan}", "''", "x", "meta", "cuda", "cpu",
    "mps", "../x", "/", "/dev/null", "\x1b[31m", "é", "a=b", "[[[[", '"', "\udc80",
    "9" * 5000, "{a={b={c=1}}}", "1979-05-27", "0x1F", "[" * 3000, "None", "[bold]",
)  # fmt: skip
NAMES = (*METHODS, *LOSSES, *LAYERS, *CODERS, *NETWORKS, "timm/x", "os:system", "a.b:c")
SIZES = (
    "0", "1", "2", "3", "8", "16", "1.5", "0.5", "1e-30", "1e30", "-1", "0.0", "1.0",
    "256", "65536", "99999999999999999999", "100000", "9223372036854775807", "1e308",
)  # fmt: skip
FIELDS = [
    f"{section}.{name}"
    for section, field in TrainingConfig.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    for name in field.annotation.model_fields
]
"""Every setting there is."""

LONG = ("100000", "65536", "256", "16", "7", "1e9")
FEW = ("run.steps", "data.workers", "run.processes")
"""Settings whose large values are honest wishes for long work."""


def setting(numbers: random.Random) -> str:
    """One setting with a value that may not be one."""
    key = numbers.choice(FIELDS)
    if numbers.randrange(20) == 0:
        key = numbers.choice(("x.y", "run", "run.", ".steps", "run.stepz", "", "a.b.c"))
    return f"{key}={numbers.choice(numbers.choice((WORDS, WORDS, NAMES)))}"


def fitting(numbers: random.Random) -> str:
    """One setting with a value of its own type, but an odd one."""
    section = numbers.choice([name for name in TrainingConfig.model_fields])
    fields: Any = TrainingConfig.model_fields[section].annotation
    name, field = numbers.choice(list(fields.model_fields.items()))
    words = str(field.annotation)
    if "int" in words or "float" in words:
        value = numbers.choice(SIZES)
    elif name == "options":
        value = _options(section, numbers)
    elif "bool" in words:
        honest = name == "compile"  # a wish for a compiler, which is started then
        value = "false" if honest else numbers.choice(("true", "false"))
    else:
        value = numbers.choice(NAMES)
    return f"{section}.{name}={value}"


def _options(section: str, numbers: random.Random) -> str:
    """A table of an option that some part of that kind has."""
    registries: dict[str, Any] = {"loss": LOSSES, "layer": LAYERS, "coder": CODERS}
    registry = registries.get(section, NETWORKS)
    names = list(options_of(registry[numbers.choice(list(registry))])) or ["x"]
    value = numbers.choice((*SIZES, "true", '"x"', "[1, 2]"))
    return f"{{{numbers.choice(names)}={value}}}"


class Settings(Kind):
    """Settings of a run, by words and by TOML: a configuration, or refused."""

    name = "settings"
    weight = 12.0

    def attempt(self, numbers: random.Random, place: Path) -> str:
        try:
            if numbers.randrange(3) == 0:
                path = place / "settings.toml"
                path.write_bytes(_toml(numbers))
                make_config(read_toml(path))
            else:
                count = numbers.choice((1, 1, 2, 4))
                make_config({}, [setting(numbers) for _ in range(count)])
        except GradsnapError:
            return "refused"
        return "answered"


def _toml(numbers: random.Random) -> bytes:
    lines = []
    for section in numbers.sample(list(TrainingConfig.model_fields), 3):
        keys = [key for key in FIELDS if key.startswith(f"{section}.")] or ["x.y"]
        key = numbers.choice(keys).partition(".")[2]
        lines.append(f"[{section}]\n{key} = {numbers.choice(WORDS)}")
    data = "\n".join(lines).encode("utf-8", "surrogateescape")
    return damage.damaged(data, numbers) if numbers.randrange(2) else data


class Runs(Kind):
    """The same through ``gradsnap train``, a few steps: a model, or one sentence."""

    name = "runs"
    weight = 56.0
    patience = 60.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        labelled_vectors(place / "rows.npz")

    def attempt(self, numbers: random.Random, place: Path) -> str:
        way = numbers.choice((setting, fitting, fitting, fitting))
        chosen = [way(numbers) for _ in range(numbers.choice((1, 1, 2, 3)))]
        quick = [word for word in chosen if not _is_long(word)]
        said = commands.run(
            "train", self.place / "rows.npz", "--bits", 8, "--out", place / "model",
            "--quiet", "--no-beside-plain", *TRAINING, *quick,
        )  # fmt: skip
        return commands.outcome(said)


def _is_long(word: str) -> bool:
    """Whether a setting asks for long work, and means it."""
    key, _, value = word.partition("=")
    return key in FEW and value in LONG


class Words(Kind):
    """Options and conditions of the other verbs: an answer, or one sentence."""

    name = "words"
    weight = 34.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.index = good.saved("inverted", place / "a.index").folder
        self.plain = good.saved("exhaustive half", place / "b.index").folder

    def attempt(self, numbers: random.Random, place: Path) -> str:
        index = numbers.choice((self.index, self.plain))
        word, other = numbers.choice(WORDS), numbers.choice(WORDS)
        if "\0" in word:
            word = "x"
        verbs: list[tuple[Any, ...]] = [
            ("search", index, "--id", word),
            ("search", index, "--id", "1.jpg", "-k", word),
            ("search", index, "--id", "1.jpg", "--where", _condition(numbers)),
            ("search", index, "--id", "1.jpg", "--columns", word),
            ("search", index, "--id", "1.jpg", "--probes", word),
            ("search", index, "--id", "1.jpg", "--rerank", word),
            ("search", index, word),
            ("search", word, "--id", "1.jpg"),
            ("remove", index, word, other, "--dry-run"),
            ("remove", index, "--where", _condition(numbers), "--dry-run"),
            ("update", index, "--where", _condition(numbers), "--set", word),
            ("info", word),
            ("export", index, "--to", word, "--out", place / "x"),
            ("duplicates", index, "--distance", word),
            ("index", word, "--out", place / "x"),
            ("encode", word, other, "--out", place / "x"),
            ("evaluate", word),
            ("compare", word, other),
            (word, other),
        ]
        return commands.outcome(commands.run(*numbers.choice(verbs)))


def _condition(numbers: random.Random) -> str:
    names = ("label", "id", "name", "folder", "nothing", '"label"', "year", "path")
    signs = ("=", "!=", "<", ">", "in", "like", "contains", "is", "not", "==", "~")
    ends = (
        "1", "0", "'x'", '"1.jpg"', "(1, 2)", "none", "null", "99999999999999999999",
        "1e999", "true", "'%'", "''", "(", ")", "\x1b", "2020", "-1",
    )  # fmt: skip
    parts = [
        " ".join(numbers.choice(some) for some in (names, signs, ends))
        for _ in range(numbers.choice((1, 1, 2, 3)))
    ]
    text = f" {numbers.choice(('and', 'or', 'and not', ',', ''))} ".join(parts)
    deep = numbers.choice((0, 0, 0, 5, 5000))
    return "(" * deep + text + ")" * deep
