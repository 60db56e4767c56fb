"""Embeddings that survive quantization, searched by codes of a few bytes."""

from gradsnap.errors import (
    FileFormatError,
    GradsnapError,
    InputError,
    NotFittedError,
)
from gradsnap.evaluation import mean_average_precision
from gradsnap.losses import TripletLoss
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
    "CompositeQuantizer",
    "FileFormatError",
    "GeneralizedResidualQuantizer",
    "GradientSnapping",
    "GradsnapError",
    "InputError",
    "NotFittedError",
    "OptimizedProductQuantizer",
    "OutputRegularization",
    "PrintedRule",
    "ProductQuantizer",
    "QuantizationPenalty",
    "Quantizer",
    "ResidualQuantizer",
    "SnappingRule",
    "SoftAssignment",
    "StraightThrough",
    "TripletLoss",
    "load_quantizer",
    "mean_average_precision",
]
