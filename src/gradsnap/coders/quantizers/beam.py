"""Codes by a beam: the best partial codes, extended codebook by codebook.

On a CPU a compiled kernel searches; everywhere else plain torch does, which adds in the
same order, so that both agree to the bit.
"""

from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from gradsnap.coders.quantizers.codeword_tables import (
    earlier_pair_tables,
    pair_sums,
    unary_tables,
)
from gradsnap.coders.quantizers.quantizer import chunks
from gradsnap.compiled import kernels, spread

ROWS_PER_THREAD = 64

Found = tuple[Tensor, Tensor]
"""Scores (n, keep) ascending, which lack only ``‖x‖²``, and codes (n, keep, M)."""


def beam_codes(x: Tensor, codebooks: Tensor, beam: int, keep: int = 1) -> Found:
    """The best codes a beam search finds for x (n, dim), by chunks of rows.

    Args:
        x: (n, dim).
        codebooks: (M, K, dim).
        beam: partial codes kept for each row.
        keep: codes returned for each row.
    """
    pairs = earlier_pair_tables(codebooks)
    search = compiled_beam if can_compile(x) else beam_search
    found = [
        search(unary_tables(rows, codebooks), pairs, beam, keep)
        for rows in chunks(x, codebooks.shape[1] * max(beam, codebooks.shape[0]))
    ]
    return torch.cat([part[0] for part in found]), torch.cat(
        [part[1] for part in found]
    )


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


def _kernels() -> ModuleType | None:
    return kernels("gradsnap.coders.quantizers.beam_compiled")


def can_compile(x: Tensor) -> bool:
    """Whether rows like x (n, dim) are searched by the kernel."""
    plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return plain and _kernels() is not None


def compiled_beam(unaries: Tensor, pairs: Tensor, beam: int, keep: int) -> Found:
    """``beam_search`` by the compiled kernel, rows spread over torch's threads."""
    rows, num_codebooks, size = unaries.shape
    kept = min(keep, beam, size**num_codebooks)
    scores = unaries.new_empty(rows, kept)
    codes = torch.empty(rows, kept, num_codebooks, dtype=torch.int64)
    run: Callable[..., None] = _kernels().beam_search  # type: ignore[union-attr]
    parts = max(1, min(torch.get_num_threads(), rows // ROWS_PER_THREAD))
    jobs = list(
        zip(
            (part.numpy() for part in unaries.tensor_split(parts)),
            (part.numpy() for part in scores.tensor_split(parts)),
            (part.numpy() for part in codes.tensor_split(parts)),
            strict=True,
        )
    )
    shared = pairs.numpy()
    spread(lambda job: run(job[0], shared, beam, job[1], job[2]), jobs)
    return scores, codes
