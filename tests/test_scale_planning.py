"""The planner: formulas by hand, and queues whose waits are known."""

import json

import numpy as np
import pytest

from gradsnap.errors import InputError
from gradsnap.scale.planning import Wish, makespan, planned, simulated
from gradsnap.scale.rates import Rates, with_changes
from tests.commands import said

RATES = Rates(images=50, codes=1e8, query=0.0, indexed=1e5, row_bytes=40)


def test_sizes_by_hand() -> None:
    wish = Wish(1e8, 64, 128, qps=10, probed=0.1, hours=24, cores=16, half=True)
    made = planned(wish, RATES)
    assert made.encode_cores == 24  # 1e8 / (50 · 86400) = 23.1
    assert made.encode_machines == 2
    assert made.code_bytes == 8e8
    assert made.table_bytes == 1e8 * (8 + 40 + 256)
    assert made.read_bytes == 1e8 * 1e5
    assert made.search_shards == 1  # 1e7 codes in 0.1 s
    assert made.query_seconds == pytest.approx(0.1)
    assert made.search_replicas == 2  # 10 · 0.1 / 0.7
    assert made.index_hours == pytest.approx(1e8 / (1e5 * 24) / 3600)


def test_longer_codes_and_more_items_never_take_less() -> None:
    small = planned(Wish(1e7, 32, qps=50), RATES)
    for larger in (Wish(1e7, 64, qps=50), Wish(1e8, 32, qps=50)):
        made = planned(larger, RATES)
        assert made.code_bytes > small.code_bytes
        assert made.search_shards * made.search_replicas > (
            small.search_shards * small.search_replicas
        )


def test_waits_are_those_of_the_queue() -> None:
    """One server, service S at load ρ: the mean wait is S + ρ S (1 + cv²) / 2 (1 − ρ).

    Pollaczek and Khinchine; times vary by a tenth.
    """
    service, load = 0.01, 0.6
    waits = simulated(load / service, service, 1, queries=200_000)
    expected = service + load * service * 1.01 / (2 * (1 - load))
    assert waits.mean() == pytest.approx(expected, rel=0.03)
    assert np.all(waits >= 0.5 * service)


def test_jobs_go_to_who_is_free() -> None:
    assert makespan([1.0] * 4, workers=2) == 2.0
    assert makespan([1.0] * 5, workers=2, start=10.0) == 13.0


def test_the_verb_and_its_refusals() -> None:
    told = json.loads(said("plan", "--items", "1e9", "--qps", 1000, "--json"))
    assert told["code_bytes"] == 8e9
    assert "GB" in said("plan", "--items", "1e9", "--rate", "images=900")
    assert "--rate cannot be 'speed=3'" in said(
        "plan", "--items", 9, "--rate", "speed=3"
    )
    assert "must be above zero" in said("plan", "--items", -1)
    with pytest.raises(InputError, match="NAME=NUMBER"):
        with_changes(RATES, ["images=fast"])
