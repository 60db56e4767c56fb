"""A short name for what a quantizer's codes mean."""

import hashlib
import json

from gradsnap.coders.quantizers.quantizer import Quantizer

STATISTICS = frozenset({"counts", "moments", "updates", "fitted"})
"""Buffers that only streaming updates read: they do not change what a code means."""


def fingerprint(quantizer: Quantizer) -> str:
    """SHA-256 of sizes, codebooks, rotation and constants, in hexadecimal.

    Equal for quantizers whose codes mean the same, to the bit; any change of a
    codeword changes it.
    """
    digest = hashlib.sha256()
    sizes = [quantizer.dim, quantizer.num_codebooks, quantizer.codebook_size]
    digest.update(json.dumps([type(quantizer).__name__, *sizes]).encode())
    for name, value in sorted(quantizer.state_dict().items()):
        if name.rpartition(".")[2] not in STATISTICS:
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
