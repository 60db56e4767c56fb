"""The demo: one network with and without snapping on the digits, and its report."""

from gradsnap.demo.demo import DemoSettings
from gradsnap.demo.report import cells, record, run_demo

__all__ = ["DemoSettings", "cells", "record", "run_demo"]
