"""Measuring retrieval."""

from gradsnap.evaluation.metrics import mean_average_precision

__all__ = ["mean_average_precision"]
