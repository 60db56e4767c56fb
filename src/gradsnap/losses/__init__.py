"""Losses: plain modules from embeddings and labels to a scalar."""

from gradsnap.losses.triplet import TripletLoss

LOSSES: dict[str, type[TripletLoss]] = {"triplet": TripletLoss}
"""Every loss by its short name; being in here is being tested."""

__all__ = ["LOSSES", "TripletLoss"]
