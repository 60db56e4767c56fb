"""Figure 4b: precision at N on NUS-WIDE, 48 bits, or on a stand-in."""

from functools import partial

from gradsnap.experiments.curves import curve_plan
from gradsnap.experiments.plan import Experiment

EXPERIMENT = Experiment(
    "figure-4b",
    "precision at N of every trained method at 48 bits, NUS-WIDE or a stand-in",
    "perf:nus",
    "nuswide",
    partial(curve_plan, data="nuswide"),
)
