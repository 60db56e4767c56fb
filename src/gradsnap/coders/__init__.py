"""Coders: whatever turns vectors into codes, quantizers and hashers alike."""
