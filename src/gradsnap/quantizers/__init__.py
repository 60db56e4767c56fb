"""Quantizers: vectors to codes of a few bytes, and back."""

from gradsnap.quantizers.additive import AdditiveQuantizer
from gradsnap.quantizers.base import Candidates, Quantizer, Tables
from gradsnap.quantizers.composite import CompositeQuantizer
from gradsnap.quantizers.optimized import OptimizedProductQuantizer
from gradsnap.quantizers.product import ProductQuantizer
from gradsnap.quantizers.residual import (
    GeneralizedResidualQuantizer,
    ResidualQuantizer,
)
from gradsnap.quantizers.storage import load_quantizer
from gradsnap.quantizers.supervised import SupervisedQuantizer

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
    "OptimizedProductQuantizer",
    "ProductQuantizer",
    "Quantizer",
    "ResidualQuantizer",
    "SupervisedQuantizer",
    "Tables",
    "load_quantizer",
]
