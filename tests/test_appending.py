"""Sums appended a register at a time: what one after the other gives, to the bit."""

from typing import Any

import numpy as np
import pytest

from tests.conftest import needs_numba

pytestmark = needs_numba

ROOM = 600


def sums(dtype: Any) -> tuple[Any, Any]:
    return np.zeros(ROOM, dtype), np.zeros(ROOM, np.uint32)


@pytest.fixture
def routines() -> Any:
    from gradsnap.coders.quantizers import appending_compiled

    return appending_compiled


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 15, 16, 17, 100, 256])
def test_both_ways_agree_with_numpy(routines, dtype, count) -> None:
    ways = [routines.append_plainly]
    ways += [routines.append_wide] if routines.HAS_WIDE else []
    values = np.random.default_rng(count).random(count).astype(dtype)
    terms, limit = np.array([0.0, 0.25, 0.6], dtype), dtype(0.5)
    within = [terms[i] + values <= limit for i in range(3)]
    expected = np.concatenate([(terms[i] + values)[within[i]] for i in range(3)])
    places = np.concatenate([np.flatnonzero(one) for one in within])
    for append in ways:
        found, at = sums(dtype), 0
        for term in terms:
            at = append(term, values, count, limit, found, at)
        assert at == len(expected)
        assert np.array_equal(found[0][:at], expected)
        assert np.array_equal(found[1][:at], places)


def test_no_room_is_said_and_nothing_is_written_behind(routines) -> None:
    values = np.zeros(ROOM, np.float32)
    for append in {routines.append, routines.append_plainly}:
        found = tuple(whole[:-8] for whole in sums(np.float32))
        assert append(np.float32(1), values, ROOM, np.float32(1), found, 0) == -1
        assert not any(part.base[-8:].any() for part in found)


@pytest.mark.parametrize("end", [5, 21, 64])
def test_places_are_marked(routines, end) -> None:
    places = sums(np.float32)[1]
    routines.mark(places, 5, end, 3)
    assert np.array_equal(places[5:end], np.full(end - 5, 3))
    assert not places[:5].any()
    assert not places[max(end, 21) + routines.BLOCK :].any()
