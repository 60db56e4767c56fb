"""Embeddings that survive quantization, searched by codes of a few bytes."""

from gradsnap import (
    data,
    evaluation,
    hashing,
    losses,
    networks,
    quantizers,
    rivals,
    rules,
    triplets,
)
from gradsnap.errors import (
    FileFormatError,
    GradsnapError,
    InputError,
    NotFittedError,
)
from gradsnap.evaluation import mean_average_precision
from gradsnap.losses import (
    ClassificationLoss,
    ContrastiveLoss,
    ListwiseLoss,
    PairwiseCosineLoss,
    PairwiseLogisticLoss,
    TripletLoss,
)
from gradsnap.networks import build_network
from gradsnap.quantizers import (
    AdditiveQuantizer,
    CompositeQuantizer,
    GeneralizedResidualQuantizer,
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
    SupervisedQuantizer,
    load_quantizer,
)
from gradsnap.rivals import QuantizationPenalty, SoftAssignment, StraightThrough
from gradsnap.rules import OutputRegularization, PrintedRule, SnappingRule
from gradsnap.snapping import GradientSnapping

__version__ = "0.1.0.dev0"

__all__ = [
    "AdditiveQuantizer",
    "ClassificationLoss",
    "CompositeQuantizer",
    "ContrastiveLoss",
    "FileFormatError",
    "GeneralizedResidualQuantizer",
    "GradientSnapping",
    "GradsnapError",
    "InputError",
    "ListwiseLoss",
    "NotFittedError",
    "OptimizedProductQuantizer",
    "OutputRegularization",
    "PairwiseCosineLoss",
    "PairwiseLogisticLoss",
    "PrintedRule",
    "ProductQuantizer",
    "QuantizationPenalty",
    "Quantizer",
    "ResidualQuantizer",
    "SnappingRule",
    "SoftAssignment",
    "StraightThrough",
    "SupervisedQuantizer",
    "TripletLoss",
    "build_network",
    "data",
    "evaluation",
    "hashing",
    "load_quantizer",
    "losses",
    "mean_average_precision",
    "networks",
    "quantizers",
    "rivals",
    "rules",
    "triplets",
]
