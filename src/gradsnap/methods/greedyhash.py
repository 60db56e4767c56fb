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
NeurIPS 2018, equations 7 to 11, with p = 3. The classifier reads the bits and is part
of the loss; here it has a bias, as every classifier of the library.
"""
