"""GreedyHash: the very signs forward, the gradient as it is backward."""

from functools import partial

from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import CornerPenalty

GREEDYHASH = Recipe(
    summary="Su et al. 2018: classes told from the signs themselves, cubic penalty",
    loss="classification",
    regularizer=partial(CornerPenalty, strength=0.1, power=3.0),
    layer="sign",
    coder="sign",
)
"""L(sign y) + α‖y − sign y‖₃³, where ∂L/∂y := ∂L/∂(sign y).

Su et al., "Greedy hash: towards fast optimization for accurate hash coding in CNN",
NeurIPS 2018. Checked against the authors' code (ssppp/GreedyHash): p = 3, the mean over
rows and bits, α = 0.1 for CIFAR-10 (1 for ImageNet), and gradients that pass the signs
unchanged. The classifier reads the bits and is part of the loss. Departure: it has a
bias, as every classifier of the library.
"""
