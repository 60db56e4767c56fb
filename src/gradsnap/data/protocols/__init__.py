"""Protocols as values: how a data set is divided for training and for searching."""

from gradsnap.data.protocols.by_name import (
    NAME_PROTOCOLS,
    NameProtocol,
    SampledSplit,
)
from gradsnap.data.protocols.by_pair import (
    PAIR_PROTOCOLS,
    PairProtocol,
    components,
)
from gradsnap.data.protocols.by_row import ROW_PROTOCOLS, RowProtocol
from gradsnap.data.protocols.per_class import (
    FractionProtocol,
    IlsvrcProtocol,
    PaperProtocol,
    UnseenClasses,
)
from gradsnap.data.protocols.per_label import NuswideProtocol
from gradsnap.data.protocols.protocol import Protocol, Split

PROTOCOLS: dict[str, type[Protocol]] = {
    "paper": PaperProtocol,
    "fraction": FractionProtocol,
    "nuswide": NuswideProtocol,
    "ilsvrc2012": IlsvrcProtocol,
    "unseen": UnseenClasses,
}
"""Every protocol by its short name; being in here is being tested."""

__all__ = [
    "NAME_PROTOCOLS",
    "PAIR_PROTOCOLS",
    "PROTOCOLS",
    "ROW_PROTOCOLS",
    "FractionProtocol",
    "IlsvrcProtocol",
    "NameProtocol",
    "NuswideProtocol",
    "PairProtocol",
    "PaperProtocol",
    "Protocol",
    "RowProtocol",
    "SampledSplit",
    "Split",
    "UnseenClasses",
    "components",
]
