"""Experiments: every table and figure of the paper, measured again."""

from gradsnap.experiments import (
    figure_3a,
    figure_3b,
    figure_3c,
    figure_4a,
    figure_4b,
    figure_4c,
    table_1,
    table_2,
    table_3,
)
from gradsnap.experiments.plan import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        table_1,
        table_2,
        table_3,
        figure_3a,
        figure_3b,
        figure_3c,
        figure_4a,
        figure_4b,
        figure_4c,
    )
}
"""Every experiment by its name."""

__all__ = ["EXPERIMENTS", "Experiment"]
