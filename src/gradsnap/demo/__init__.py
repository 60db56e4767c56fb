"""The demo: one network with and without snapping on the digits, and its report."""

from gradsnap.demo.demo import run_demo
from gradsnap.demo.settings import DemoSettings

__all__ = ["DemoSettings", "run_demo"]
