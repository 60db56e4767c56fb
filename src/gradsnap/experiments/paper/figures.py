"""Figures 3 and 4: what they show. The paper prints no numbers for them."""

CAPTIONS = {
    "sal:ovg": (
        "Comparison between output regularization and gradient snapping: histogram of "
        "the inner products of the two gradients, both of length 1"
    ),
    "sal:ofq": (
        "The impact of codebook update interval on retrieval performance, with 150 "
        "enumerated codewords"
    ),
    "sal:nn": (
        "How the number of enumerated neighboring codewords impacts retrieval "
        "performance, with codebook update interval 1"
    ),
    "perf:cifar": "Precision with respect to the top returned samples, CIFAR-10",
    "perf:nus": "Precision with respect to the top returned samples, NUS-WIDE",
    "perf:in": "MAP of the first 1,500 against bits, ILSVRC2012",
}
"""By label."""

BITS = 32
"""Of figure 3: a product quantizer of 4 codebooks of 256 codewords."""
NEIGHBORS = 150
CURVE_BITS = 48
"""Of figures 4a and 4b."""
LENGTH = 1500
"""How many results of ILSVRC2012 count."""

NOTES = ("The paper prints this as a picture, without numbers to stand beside ours.",)
