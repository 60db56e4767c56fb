"""What an index is: sizes, use of codewords, error, growth by save, model card."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsnap.coders.packing import unpack
from gradsnap.coders.quantizers import Quantizer
from gradsnap.index import HalfPrecision, Index
from gradsnap.index.lists import ListedIndex
from gradsnap.serve.answering import has_metadata
from gradsnap.serve.floats import keeps_floats
from gradsnap.serve.opened import OpenedIndex, Version
from gradsnap.serve.plain import plain, plain_row

MOST_COUNTED = 1_000_000
"""Codes whose codewords are counted; evenly drawn where there are more."""

MOST_COMPARED = 4096
"""Items whose codes are compared with their embeddings for the error."""

FIGURES = ("float_map", "code_map", "relative_error")


def summary(name: str, version: Version) -> dict[str, Any]:
    """What the page shows beside every search."""
    index = version.index
    return {
        "name": name,
        "items": len(index),
        "kind": index.kind,
        "coder": type(index.coder).__name__,
        "bits": index.coder.bits,
        "codebooks": index.coder.num_codebooks,
        "codebook_size": index.coder.codebook_size,
        "dim": index.coder.dim if index.takes_vectors else None,
        "lists": _lists(version),
        "probe": index.probes if isinstance(index, ListedIndex) else None,
        "reranks": index.refiner is not None,
        "floats": keeps_floats(index),
        "images": version.model is not None and version.model.spec.name != "head",
        "pictures": bool(index.items.named and index.roots),
        "metadata": has_metadata(index),
        "version": version.generation,
    }


def _lists(version: Version) -> int | None:
    """Lists a query may look into; None without lists."""
    there = version.elsewhere
    return version.index.num_lists if there is None else there.num_lists


def about(opened: OpenedIndex, version: Version) -> dict[str, Any]:
    """The tab with the index."""
    index = version.index
    disk = _bytes_on_disk(opened.folder)
    return {
        **summary(opened.name, version),
        "bytes_an_item": _bytes_an_item(index),
        "bytes_on_disk": disk,
        "refiner": _refiner(index),
        "codewords": codeword_use(index),
        "relative_error": relative_error(index),
        "lists_filled": list_sizes(index),
        "growth": growth(opened.folder, version),
        "model": _model(version),
    }


def codeword_use(index: Index) -> list[dict[str, Any]]:
    """For each codebook how often its codewords are used, and its perplexity.

    Perplexity exp(−Σ p ln p) is the number of codewords that would be used as much if
    all were used alike.
    """
    coder = index.coder
    size = coder.codebook_size
    counts = np.zeros((coder.num_codebooks, size), dtype=np.int64)
    step = max(1, len(index) // MOST_COUNTED)
    for segment in index.items.segments:
        at = segment.counted()[::step]
        codes = unpack(np.asarray(segment.codes)[at], coder.num_codebooks, size)
        for m in range(coder.num_codebooks):
            counts[m] += np.bincount(codes[:, m].astype(np.int64), minlength=size)
    return [_use(row) for row in counts]


def _use(counts: np.ndarray[Any, Any]) -> dict[str, Any]:
    shares = counts[counts > 0] / max(1, counts.sum())
    perplexity = float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0
    return {
        "used": int((counts > 0).sum()),
        "perplexity": round(perplexity, 1),
        "counts": np.sort(counts)[::-1][:256].tolist(),
    }


@torch.no_grad()
def relative_error(index: Index) -> float | None:
    """Mean squared error of codes over the variance, by kept embeddings; or None."""
    refiner = index.refiner
    known = isinstance(refiner, HalfPrecision) and isinstance(index.coder, Quantizer)
    if not known or refiner is None or len(index) < 2:
        return None
    ids = index.select()
    step = max(1, len(ids) // MOST_COMPARED)
    some = ids[::step]
    places = index.items.places(some)
    rows = index.items.fine_rows(places, refiner.row_bytes).view(np.float16)
    x = torch.from_numpy(rows).float()
    error = (x - index.reconstruct(some)).square().sum(dim=1).mean()
    variance = (x - x.mean(dim=0)).square().sum(dim=1).mean()
    return float(error / variance) if float(variance) > 0 else None


def list_sizes(index: Index) -> dict[str, Any] | None:
    """How many lists hold how many items; None without lists."""
    if index.num_lists is None:
        return None
    sizes = np.zeros(index.num_lists, dtype=np.int64)
    for segment in index.items.segments:
        sizes += np.diff(np.asarray(segment.bounds))
    ordered = np.sort(sizes)[::-1]
    step = max(1, len(ordered) // 256)
    return {"empty": int((sizes == 0).sum()), "counts": ordered[::step].tolist()}


def growth(folder: Path, version: Version) -> list[dict[str, Any]]:
    """What each save added that is still apart: when, and how many items."""
    origin = version.index.origin
    if origin is None:
        return []
    entries = origin.manifest["segments"]
    saves = []
    for segment, entry in zip(version.index.items.segments, entries, strict=True):
        written = max(
            (file.stat().st_mtime for file in folder.glob(f"{entry['name']}.*")),
            default=0.0,
        )
        when = datetime.datetime.fromtimestamp(written, datetime.UTC)
        save = int(entry["name"].split("-")[0])
        at = when.isoformat(timespec="seconds")
        saves.append({"save": save, "at": at, "items": segment.live})
    return saves


def _model(version: Version) -> dict[str, Any] | None:
    """The model card, without paths of this machine."""
    model = version.model
    if model is None:
        return None
    card = model.card
    weights = sum(value.numel() for value in model.network.parameters())
    wanted = {
        "network": model.spec.name,
        "weights": weights,
        "data": Path(str(card.get("data", ""))).name,
        "trained_on": card.get("items"),
        "protocol": card.get("protocol", {}).get("name"),
        "method": card.get("method"),
        "loss": card.get("loss"),
        "layer": card.get("layer"),
        "finished": card.get("finished"),
        "figures": plain(card.get("figures", {})),
    }
    return plain_row(wanted)


def _refiner(index: Index) -> str | None:
    if index.refiner is None:
        return None
    return "half precision" if isinstance(index.refiner, HalfPrecision) else "code"


def _bytes_an_item(index: Index) -> float:
    """Of the code, and of what re-ranking keeps."""
    code = index.coder.bits / 8
    return code + (0 if index.refiner is None else index.refiner.row_bytes)


def _bytes_on_disk(folder: Path) -> int | None:
    """Of all files below; None for what lies on no disk of this machine."""
    if not folder.is_dir():
        return None
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
