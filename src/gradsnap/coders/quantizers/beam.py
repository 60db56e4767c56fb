"""Codes by a beam: the best partial codes, extended codebook by codebook.

On a CPU a compiled kernel searches; everywhere else plain torch does, which adds in the
same order, so that both agree to the bit. Where vectors are long and codewords differ
in few directions, another kernel searches by bounds, and computes few tables' entries.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from gradsnap.coders.quantizers.beam_tables import BeamTables
from gradsnap.coders.quantizers.bounds import Bounds
from gradsnap.coders.quantizers.codeword_tables import pair_sums, unary_tables
from gradsnap.coders.quantizers.quantizer import chunks
from gradsnap.compiled import kernels, on_threads, spread

ROWS_PER_THREAD = 64

WIDEST_BOUNDED = 16
"""Wider beams look at most codewords, so whole tables are what they need."""

FEWER_PRODUCTS = 8
"""Where bounds leave more than one codeword in so many, whole tables take over."""

Found = tuple[Tensor, Tensor]
"""Scores (n, keep) ascending, which lack only ``‖x‖²``, and codes (n, keep, M)."""


def beam_codes(x: Tensor, tables: BeamTables, beam: int, keep: int = 1) -> Found:
    """The best codes a beam search finds for x (n, dim), by chunks of rows.

    Args:
        x: (n, dim).
        tables: of the codebooks (M, K, dim).
        beam: partial codes kept for each row.
        keep: codes returned for each row.
    """
    codebooks = tables.codebooks
    bounded = can_compile(x) and beam <= WIDEST_BOUNDED
    bounds = tables.bounds(len(x)) if bounded else None
    most = codebooks.shape[0] * codebooks.shape[1] // FEWER_PRODUCTS
    found = []
    for rows in chunks(x, codebooks.shape[1] * max(beam, codebooks.shape[0])):
        if bounds is None:
            unaries = unary_tables(rows, codebooks, tables.norms)
            found.append(searched(unaries, tables.pairs, beam, keep))
            continue
        part, products = compiled_bounds(rows, bounds, tables.pairs, beam, keep)
        found.append(part)
        if products > most * len(rows):
            bounds = None
    return torch.cat([part[0] for part in found]), torch.cat(
        [part[1] for part in found]
    )


def searched(unaries: Tensor, pairs: Tensor, beam: int, keep: int) -> Found:
    """``beam_search``, by the compiled kernel where it can."""
    search = compiled_beam if can_compile(unaries) else beam_search
    return search(unaries, pairs, beam, keep)


def beam_search(unaries: Tensor, pairs: Tensor, beam: int, keep: int) -> Found:
    """Extends the best partial codes codebook by codebook, in plain torch.

    Args:
        unaries: (n, M, K).
        pairs: ``earlier_pair_tables``, (M, M·K, K).
        beam: partial codes kept for each row.
        keep: codes returned for each row; all there are, if they are fewer.
    """
    rows, num_codebooks, size = unaries.shape
    scores, first = unaries[:, 0].topk(min(beam, size), dim=1, largest=False)
    codes = first[..., None]  # (n, b, 1)
    for m in range(1, num_codebooks):
        added = pair_sums(codes.flatten(0, 1), pairs, m)
        added = added.view(rows, codes.shape[1], size)
        added += unaries[:, m, None]
        added += scores[..., None]  # (n, b, K)
        kept = min(beam, added.shape[1] * size)
        scores, best = added.flatten(1).topk(kept, dim=1, largest=False)
        state = best.div(size, rounding_mode="floor")
        earlier = codes.gather(1, state[..., None].expand(-1, -1, m))
        codes = torch.cat([earlier, best.remainder(size)[..., None]], dim=2)
    return scores[:, :keep], codes[:, :keep]


def _kernels(name: str) -> ModuleType | None:
    return kernels(f"gradsnap.coders.quantizers.{name}_compiled")


def can_compile(x: Tensor) -> bool:
    """Whether rows, or tables, like x are searched by the kernels."""
    plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return plain and _kernels("beam") is not None


def compiled_beam(unaries: Tensor, pairs: Tensor, beam: int, keep: int) -> Found:
    """``beam_search`` by the compiled kernel, rows spread over torch's threads."""
    run: Callable[..., None] = _kernels("beam").beam_search  # type: ignore[union-attr]
    found, shared = _room(unaries, beam, keep), pairs.numpy()
    spread(
        lambda job: run(job[0], shared, beam, job[1], job[2]), _parts(unaries, *found)
    )
    return found


def compiled_bounds(
    x: Tensor, bounds: Bounds, pairs: Tensor, beam: int, keep: int
) -> tuple[Found, int]:
    """Codes of rows x (n, dim) by bounds, and how many inner products they took."""
    run: Callable[..., int] = _kernels("bounds").bounded_search  # type: ignore[union-attr]
    lower = bounds.lower(x)
    found = _room(lower, beam, keep)
    words = bounds.codebooks.numpy(), bounds.norms.numpy(), pairs.numpy()
    products = on_threads(
        lambda job: run(job[0], job[1], words, beam, job[2:]),
        _parts(x.contiguous(), lower, *found),
    )
    return found, sum(products)


def _room(tables: Tensor, beam: int, keep: int) -> Found:
    """Scores (n, keep) and codes (n, keep, M) to be filled, for tables (n, M, K)."""
    rows, num_codebooks, size = tables.shape
    kept = min(keep, beam, size**num_codebooks)
    codes = torch.empty(rows, kept, num_codebooks, dtype=torch.int64)
    return tables.new_empty(rows, kept), codes


def _parts(*tensors: Tensor) -> list[tuple[Any, ...]]:
    """Arrays of the tensors' rows, for each of torch's threads."""
    parts = max(1, min(torch.get_num_threads(), len(tensors[0]) // ROWS_PER_THREAD))
    split = ([part.numpy() for part in one.tensor_split(parts)] for one in tensors)
    return list(zip(*split, strict=True))
