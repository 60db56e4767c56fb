"""The paper's table 1, top rows: shallow methods at 32 bits on CIFAR-10, re-run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.report import Record, Row, say, skipped
from benchmarks.timing import seconds
from benchmarks.vectors import (
    MissingData,
    Setting,
    cached_embeddings,
    cached_gist,
    cifar_images,
)
from gradsnap.coders import CODERS, Coder, Quantizer
from gradsnap.coders.packing import bits_of
from gradsnap.data.protocols import PaperProtocol, Split
from gradsnap.evaluation import (
    CodeDistances,
    Distances,
    EmbeddingDistances,
    HashDistances,
    ProtocolCard,
    RankingRules,
    evaluate,
)

IMAGES, BITS, CODEBOOKS = 60_000, 32, 4
RULES = RankingRules(None, "relevant", "zero")
NEAR = 0.04
FIT_ROWS = {"pq": 20_000, "opq": 20_000, "aq": 10_000}
"""Database rows the codebooks are learned from."""

Model = Coder | None
Figures = dict[str, tuple[float, ...]]

GIST: Figures = {
    "l2": (0.177,),
    "pq": (0.170,),
    "opq": (0.178,),
    "aq": (0.175,),
    "itq": (0.174, 0.172, 0.165),
    "ksh": (0.346,),
    "sdh": (0.400, 0.43, 0.46),
    "fasthash": (0.372, 0.37),
}
"""The paper's table 1 first, then what it quotes and others have published since."""

ALEXNET: Figures = {
    "l2": (0.313,),
    "pq": (0.264,),
    "opq": (0.292,),
    "aq": (0.233,),
    "itq": (0.260,),
    "ksh": (0.558,),
    "sdh": (0.586,),
    "fasthash": (0.603,),
}
"""The paper's, of 4096-d fc7; ours are of conv5, averaged over places, unit length."""


@dataclass(frozen=True)
class Figure:
    """One cell of the table beside what was published."""

    embedding: str
    method: str
    whole: float
    """MAP with the training images in the database, 59,000."""
    apart: float
    """MAP without them, 54,000."""
    interval: tuple[float, float]
    published: tuple[float, ...]
    seconds: float
    note: str = ""

    @property
    def near(self) -> bool | None:
        """Whether a published figure lies within .04; None where there is none."""
        if not self.published:
            return None
        return min(abs(self.whole - p) for p in self.published) <= NEAR

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        marks = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
        low, high = self.interval
        return {
            "what": f"{self.embedding}: {self.method}",
            "MAP, 59k": f"{self.whole:.3f}",
            "95 %": f"{low:.3f}–{high:.3f}",
            "54k": f"{self.apart:.3f}",
            "published": " ".join(f"{p:.3f}" for p in self.published),
            "within .04": marks[self.near],
            "fit": f"{self.seconds:.0f} s",
            "note": self.note,
        }

    def record(self) -> Record:
        """What is written to the JSON file."""
        return {
            "what": f"{self.embedding}: {self.method}",
            "map_59000": self.whole,
            "map_54000": self.apart,
            "interval_95": self.interval,
            "published": self.published,
            "bar": "within .04 of a published figure",
            "met": self.near,
            "fit_seconds": round(self.seconds, 1),
            "note": self.note,
        }


@dataclass(frozen=True, eq=False)
class Bench:
    """Embeddings with labels, split by the paper's protocol."""

    name: str
    x: Tensor
    labels: Tensor
    split: Split
    published: Figures

    def measured(self, name: str, model: Model) -> Figure:
        """Fits the model, ranks the database with and without training images."""
        took = seconds(lambda: self.fit(name, model))
        database = self.split.database
        codes = self.coded(model, self.x[database])
        kept = ~torch.isin(database, self.split.train)
        found = []
        for part in (torch.ones_like(kept), kept):
            table = self.table(model, codes[part])
            asked = self.labels[self.split.queries]
            found.append(evaluate(table, asked, self.labels[database[part]], RULES))
        whole, apart = found
        published = self.published.get(name.split()[0], ())
        return Figure(
            self.name, name, whole.map, apart.map, whole.interval(), published, took
        )

    def fit(self, name: str, model: Model) -> None:
        """Supervised methods learn from the training part, others from the database."""
        train, database = self.split.train, self.split.database
        if model is None:
            return
        rows = train if model.supervised else database
        if isinstance(model, Quantizer):
            generator = torch.Generator().manual_seed(0)
            drawn = torch.randperm(len(database), generator=generator)
            rows = database[drawn[: FIT_ROWS[name]]]
        model.fit(self.x[rows], self.labels[rows])

    def coded(self, model: Model, x: Tensor) -> Tensor:
        """Codes, hashes, or the embeddings themselves."""
        return x if model is None else model.encode(x)

    def table(self, model: Model, codes: Tensor) -> Distances:
        """What the queries are ranked by."""
        asked = self.x[self.split.queries]
        if model is None:
            return EmbeddingDistances(asked, codes)
        if model.hamming_levels is not None:  # counted, which is faster than sorted
            return HashDistances(model.encode(asked), codes)
        return CodeDistances(model, asked, codes)


def run(setting: Setting) -> Iterator[Figure | Row]:
    """The paper's protocol: 100 queries and 500 training images a class, seed 0."""
    count = 2000 if setting.quick else IMAGES
    loaders: dict[str, tuple[Callable[[Setting, int], Tensor], Figures]] = {
        "GIST": (cached_gist, GIST),
        "AlexNet conv5": (_unit_embeddings, ALEXNET),
    }
    for name, (load, published) in loaders.items():
        try:
            x = load(setting, count)
            _, labels = cifar_images(setting, count)
        except MissingData as missing:
            yield skipped(f"all rows of {name}", missing)
            continue
        protocol = PaperProtocol(10, 50) if setting.quick else PaperProtocol()
        split = protocol.split(labels, seed=0)
        say(str(ProtocolCard.of("cifar10", [split], RULES, seeds=(0,), network=name)))
        bench = Bench(name, x, labels, split, published)
        yield from _rows(bench, setting)


def _unit_embeddings(setting: Setting, count: int) -> Tensor:
    return torch.nn.functional.normalize(cached_embeddings(setting, count))


def _rows(bench: Bench, setting: Setting) -> Iterator[Figure]:
    dim, words = bench.x.shape[1], setting.words
    anchors = 100 if setting.quick else 3000
    yield bench.measured("l2", None)
    for kind in ("pq", "opq", "aq"):
        effort = {"iterations": 2} if setting.quick and kind != "pq" else {}
        bits = CODEBOOKS * bits_of(words)
        model = CODERS[kind].of_bits(dim, bits, words, **effort)
        rows = FIT_ROWS[kind]
        yield replace(bench.measured(kind, model), note=f"fitted to {rows:,} rows")
    for kind in ("lsh", "pcah", "itq", "sh"):
        yield bench.measured(kind, CODERS[kind].of_bits(dim, BITS))
    own = CODERS["ksh"].of_bits(dim, BITS, num_anchors=min(anchors, 300))
    yield replace(bench.measured("ksh", own), note="300 anchors, as in its paper")
    for kind in ("ksh", "sdh"):
        large = CODERS[kind].of_bits(dim, BITS, num_anchors=anchors)
        found = bench.measured(f"{kind} {anchors} anchors", large)
        yield replace(found, note="its paper has 300" if kind == "ksh" else "")
    trees = 3 if setting.quick else 200 if setting.full else 100
    boosted = CODERS["fasthash"].of_bits(dim, BITS, trees=trees)
    last = bench.measured("fasthash", boosted)
    yield replace(last, note=f"{trees} trees a bit, depth 4")
