"""Layers between embeddings and loss: gradient snapping, and its rivals."""
