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
labels", IJCAI 2016; checked against jiangqy/DPSH-pytorch, from the authors' group: θ
is halved and neither scaled by the length nor weighted by class, and outputs pass no
tanh. There both sums are divided by the pairs and η is 10, so that a row's ‖b − u‖²
has the weight 10/n, 0.002 for the 5,000 items of CIFAR-10. Here it is 0.1/bits, the
same at 48 bits.

Departure: the authors compare a batch with the outputs that all other items had when
they were last seen, and only the batch's side has a gradient; here pairs are those
within the batch, and both sides learn. Their runs have 150 epochs; after the few
hundred steps of our tables the loss still falls.
"""
