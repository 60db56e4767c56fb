"""Figure 4a: precision at N on CIFAR-10, 48 bits."""

from functools import partial

from gradsnap.experiments.curves import curve_plan
from gradsnap.experiments.plan import Experiment

EXPERIMENT = Experiment(
    "figure-4a",
    "precision at N of every trained method at 48 bits, CIFAR-10",
    "perf:cifar",
    "cifar10",
    partial(curve_plan, data="cifar10"),
)
