"""Quantizers: vectors to codes of a few bytes, and back."""

from gradsnap.coders.quantizers.additive import AdditiveQuantizer
from gradsnap.coders.quantizers.composite import CompositeQuantizer
from gradsnap.coders.quantizers.local import LocallyOptimizedProductQuantizer
from gradsnap.coders.quantizers.optimized import OptimizedProductQuantizer
from gradsnap.coders.quantizers.product import ProductQuantizer
from gradsnap.coders.quantizers.quantizer import Candidates, Quantizer
from gradsnap.coders.quantizers.residual import (
    GeneralizedResidualQuantizer,
    ResidualQuantizer,
)
from gradsnap.coders.quantizers.supervised import SupervisedQuantizer

QUANTIZERS: dict[str, type[Quantizer]] = {
    "pq": ProductQuantizer,
    "opq": OptimizedProductQuantizer,
    "rvq": ResidualQuantizer,
    "grvq": GeneralizedResidualQuantizer,
    "aq": AdditiveQuantizer,
    "cq": CompositeQuantizer,
}
"""Every quantizer by its short name; being in here is being tested and comparable."""

__all__ = [
    "QUANTIZERS",
    "AdditiveQuantizer",
    "Candidates",
    "CompositeQuantizer",
    "GeneralizedResidualQuantizer",
    "LocallyOptimizedProductQuantizer",
    "OptimizedProductQuantizer",
    "ProductQuantizer",
    "Quantizer",
    "ResidualQuantizer",
    "SupervisedQuantizer",
]
