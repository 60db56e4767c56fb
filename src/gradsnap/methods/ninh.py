"""NINH, the paper's SHFC: triplets, and each bit from features of its own."""

from gradsnap.losses import SquaredTripletLoss
from gradsnap.methods.method import Recipe

NINH = Recipe(
    summary="Lai et al. 2015 (SHFC): triplet loss, divide-and-encode, threshold",
    loss=SquaredTripletLoss,
    layer="threshold",
    coder="sign",
    settings={"network": {"feat": "divide-and-encode"}},
    tries=("loss.options.margin", (1.0, 0.5, 2.0)),
)
"""max(0, 1 + ‖F(a) − F(p)‖² − ‖F(a) − F(n)‖²), F in [0, 1].

Lai et al., "Simultaneous feature learning and hash coding with deep neural networks",
CVPR 2015: slices of features, a sigmoid each, and the piece-wise threshold. The paper
was not at hand; checked against HYPJUDY/caffe-dnnh, whose network is that of the first
author's code: the same hinge of squared distances, 50 features a bit and a sigmoid.
That code has a margin of 2 and no threshold.

Departures: all triplets of the batch take part, as in the triplet loss of the library,
where the authors draw them. The paper calls ε small; no value was found. An output that
the threshold has made a bit has no gradient, so that a small ε ends training before it
begins; here ε = 0.45, which stops only outputs above 0.95 and below 0.05.
"""
