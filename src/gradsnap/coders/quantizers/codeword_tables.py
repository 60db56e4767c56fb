"""What codewords, and pairs of them, bring to the squared distance of a sum.

Of ``‖x − Σ c‖² = ‖x‖² + Σₘ (‖cₘ‖² − 2⟨x, cₘ⟩) + 2 Σᵢ<ⱼ ⟨cᵢ, cⱼ⟩`` the middle part has a
table for each row, the last a table for all rows.
"""

import torch
from torch import Tensor
from torch.nn import functional


def residual_of_others(x: Tensor, codes: Tensor, codebooks: Tensor, m: int) -> Tensor:
    """The rows x (n, dim) less the codewords of all codebooks but m, (n, dim)."""
    return x - sum_codewords(codes, codebooks) + codebooks[m, codes[:, m]]


def codeword_offsets(codes: Tensor, codebook_size: int) -> Tensor:
    """Where each codebook starts among all codewords, for codes (…, m): (m,)."""
    return torch.arange(codes.shape[-1], device=codes.device) * codebook_size


def sum_codewords(codes: Tensor, codebooks: Tensor) -> Tensor:
    """Sums of the codewords of codes (n, M) in codebooks (M, K, dim): (n, dim)."""
    index = codes + codeword_offsets(codes, codebooks.shape[1])
    return functional.embedding_bag(index, codebooks.flatten(0, 1), mode="sum")


def word_norms(codebooks: Tensor) -> Tensor:
    """Squared norms of the codewords of codebooks (M, K, dim): (M, K)."""
    return codebooks.square().sum(dim=2)


def unary_tables(x: Tensor, codebooks: Tensor, norms: Tensor | None = None) -> Tensor:
    """What each codeword alone brings to the squared distance to x (n, dim).

    Args:
        x: (n, dim), which may be few of many rows.
        codebooks: (M, K, dim).
        norms: ``word_norms`` of them, where they were found for other rows already.

    Returns:
        ``‖c‖² − 2⟨x, c⟩``, (n, M, K).
    """
    words = codebooks.flatten(0, 1)
    norms = word_norms(codebooks) if norms is None else norms
    entries = torch.addmm(norms.flatten(), x, words.T, alpha=-2)
    return entries.view(len(x), *codebooks.shape[:2])


def pair_tables(codebooks: Tensor) -> Tensor:
    """Twice the inner products of all codewords, by codebook.

    Args:
        codebooks: (M, K, dim).

    Returns:
        (M, M·K, K): entry [m, j·K + a, b] is ``2⟨c_j(a), c_m(b)⟩``; zero for j = m,
        since a code has one codeword of each codebook.
    """
    tables = earlier_pair_tables(codebooks)
    num_codebooks, size, _ = codebooks.shape
    blocks = tables.view(num_codebooks, num_codebooks, size, size)
    for m in range(num_codebooks):
        blocks[m, m] = 0
        for j in range(m):
            blocks[j, m] = blocks[m, j].T
    return tables


def earlier_pair_tables(codebooks: Tensor) -> Tensor:
    """``pair_tables`` with j < m alone; all other entries are left as they come.

    Half the work, and all that codes need which grow codebook by codebook.
    """
    num_codebooks, size, _ = codebooks.shape
    words = codebooks.flatten(0, 1)
    tables = words.new_empty(num_codebooks, num_codebooks * size, size)
    for m in range(1, num_codebooks):
        earlier = tables[m, : m * size]
        torch.mm(words[: m * size], codebooks[m].T, out=earlier).mul_(2)
    return tables


def pair_sums(codes: Tensor, pairs: Tensor, m: int) -> Tensor:
    """What the codewords of codes (n, j) add to each codeword of codebook m, (n, K)."""
    index = codes + codeword_offsets(codes, pairs.shape[2])
    return functional.embedding_bag(index, pairs[m], mode="sum")
