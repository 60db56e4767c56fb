"""The demo: digits by half a byte, without snapping, with it, and through codes."""

from gradsnap.demo.report import cells, record, run_demo
from gradsnap.demo.settings import DemoSettings

__all__ = ["DemoSettings", "cells", "record", "run_demo"]
