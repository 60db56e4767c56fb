"""Networks whose output is the embedding."""

from gradsnap.networks.alexnet import AlexNet

__all__ = ["AlexNet"]
