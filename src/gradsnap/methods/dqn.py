"""DQN: a deep quantization network, pulled to codewords that are learned anew."""

from gradsnap.methods.method import Recipe

DQN = Recipe(
    summary="Cao et al. 2016: pair-wise cosine loss, product quantization loss",
    loss="cosine",
    regularizer="quantization",
    settings={"coder": {"learn": "fit", "update_every": 100}},
)
"""Cao, Long, Wang, Zhu and Wen, "Deep quantization network for efficient image
retrieval", AAAI 2016: L + λQ with the pair-wise cosine loss L = Σ (s − cos(z, z′))² and
the product quantization loss Q = Σ‖z − C h‖², in turn with C and h by k-means.

Departures: L is the mean over pairs and Q the mean over rows; codebooks are learned
anew every hundred steps where the paper does so each epoch, and a row's code is always
the nearest codeword, so that codes need not be kept between steps.
"""
