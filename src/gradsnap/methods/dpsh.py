"""DPSH: deep pair-wise hashing, the first that learns features and bits end to end."""

from functools import partial

from gradsnap.losses import PairwiseLogisticLoss
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import CornerPenalty

DPSH = Recipe(
    summary="Li et al. 2016: pair-wise logistic loss, squared distance to the signs",
    loss=partial(PairwiseLogisticLoss, scale=0.5),
    regularizer=partial(CornerPenalty, strength=0.1, power=2.0),
    coder="sign",
)
"""−Σ (s θ − log(1 + exp θ)) + η Σ ‖b − u‖², θ = ½⟨u, u′⟩ and b = sign u.

Li, Wang and Kang, "Feature learning based deep supervised hashing with pairwise
labels", IJCAI 2016, equations 2 and 7. Here means over the pairs of a batch and over
rows take the place of sums over the data set, so that η is small: the paper's 10 to
100 stands against n times as many pairs. The authors also compare a batch with the
outputs that all other items had when they were last seen; pairs within the batch have
no stale side, and are what the paper's equations say.
"""
