"""DQN: a deep quantization network, pulled to codewords that are learned anew."""

from gradsnap.methods.method import Recipe

DQN = Recipe(
    summary="Cao et al. 2016: pair-wise cosine loss, product quantization loss",
    loss="cosine",
    regularizer="quantization",
    settings={
        "coder": {"learn": "fit", "update_every": 100},
        "regularizer": {"options": {"strength": 0.01}},
    },
)
"""Cao, Long, Wang, Zhu and Wen, "Deep quantization network for efficient image
retrieval", AAAI 2016: L + λQ with the pair-wise cosine loss L = Σ (s − cos(z, z′))² and
the product quantization loss Q = Σ‖z − C h‖², in turn with C and h by k-means.

Checked against thuml/DeepHash, of the authors: s is 1 or −1, L the mean over pairs and
Q the mean over rows, as here; λ is 0.0001 for 300 dimensions.

The penalty is weak by default: with a few codewords a stronger one pulls classes into
one that happened to share a codeword, and k-means then keeps them there.

Departures: outputs are taken as they are, where that code passes them through tanh;
codebooks are learned anew every hundred steps, there every second epoch; and a row's
code is always the nearest codeword, so that codes need not be kept between steps.
"""
