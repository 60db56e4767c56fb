"""Embeddings that survive quantization, searched by codes of a few bytes."""

from gradsnap import (
    data,
    export,
    index,
    losses,
    networks,
    quantizers,
    rivals,
    rules,
    training,
    triplets,
)
from gradsnap.embedding import embed
from gradsnap.errors import (
    FileFormatError,
    GradsnapError,
    InputError,
    NotFittedError,
)
from gradsnap.evaluation import mean_average_precision
from gradsnap.index import (
    ExhaustiveIndex,
    HalfPrecision,
    HammingIndex,
    InvertedIndex,
    LocallyOptimizedIndex,
    LongerCode,
    MultiIndex,
    SearchResult,
    load_index,
)
from gradsnap.losses import (
    ClassificationLoss,
    ContrastiveLoss,
    ListwiseLoss,
    PairwiseCosineLoss,
    PairwiseLogisticLoss,
    TripletLoss,
)
from gradsnap.model import Model, load
from gradsnap.networks import build_network
from gradsnap.quantizers import (
    AdditiveQuantizer,
    CompositeQuantizer,
    GeneralizedResidualQuantizer,
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
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
    "ExhaustiveIndex",
    "FileFormatError",
    "GeneralizedResidualQuantizer",
    "GradientSnapping",
    "GradsnapError",
    "HalfPrecision",
    "HammingIndex",
    "InputError",
    "InvertedIndex",
    "ListwiseLoss",
    "LocallyOptimizedIndex",
    "LongerCode",
    "Model",
    "MultiIndex",
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
    "SearchResult",
    "SnappingRule",
    "SoftAssignment",
    "StraightThrough",
    "TripletLoss",
    "build_network",
    "data",
    "embed",
    "export",
    "index",
    "load",
    "load_index",
    "load_quantizer",
    "losses",
    "mean_average_precision",
    "networks",
    "quantizers",
    "rivals",
    "rules",
    "training",
    "triplets",
]
