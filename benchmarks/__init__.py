"""Benchmarks: what gradsnap promises, measured beside FAISS in the same run."""
