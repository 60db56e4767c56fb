"""Experiments: every table and figure of the paper, measured again."""
