"""Table 2: the methods by their parts."""

from typing import NamedTuple

LABEL = "tabcomp"
CAPTION = (
    "Comparison between different simultaneous representation and short code learning "
    "schemes"
)


class Parts(NamedTuple):
    """A line of the table."""

    loss: str
    regularization: str
    search: str


PARTS: dict[str, Parts] = {
    "DQN": Parts("Pair-wise cosine", "Product quantization", "ADC"),
    "DHN": Parts("Pair-wise logistic", "l1 quantization", "Hamming"),
    "CNNH": Parts("Classification", "No", "Hamming"),
    "DRSCH": Parts("Triplet & pair-wise", "No", "Weighted Hamming"),
    "DSFH": Parts("List-wise", "Zero-mean", "Hamming"),
    "SHFC": Parts("Triplet", "No", "Hamming"),
    "Ours": Parts("Any", "Gradient snapping", "ADC"),
}

NOTES = (
    "CNNH works in two steps, codes first and then a network; the others learn both at "
    "once.",
)
