"""Lives of indexes as tries: one example of the state machine each."""

import random
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from storm import good, machine
from storm.kind import Kind

LENGTH = 50
"""Rules of one life."""

EXAMPLES = 6
"""Lives of one try; Hypothesis begins with the simplest."""


class Lives(Kind):
    """Every index kind and store through adds, removals, saves, kills and readers."""

    name = "lives"
    weight = 420.0
    renewed = 25
    patience = 120.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        good.learn_all()

    def attempt(self, numbers: random.Random, place: Path) -> str:
        before = machine.steps[0]
        live(numbers.randrange(2**30), place, examples=EXAMPLES)
        self.steps = machine.steps[0] - before
        return "answered"

    def said(self, seeds: list[int], steps: int) -> str:
        return f"{steps:,} steps"


def live(chosen: int, place: Path, examples: int, length: int = LENGTH) -> None:
    """Runs so many lives from a seed; what fails is made small, and raised.

    Args:
        chosen: the seed.
        place: a folder for theirs.
        examples: how many lives.
        length: rules of each.
    """
    own = settings(
        max_examples=examples,
        stateful_step_count=length,
        deadline=None,
        database=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    test = seed(chosen)(type("Life", (machine.IndexLife,), {"home": place}))
    run_state_machine_as_test(test, settings=own)
