"""Indexes: items found by their codes."""

from gradsnap.index.exhaustive import ExhaustiveIndex
