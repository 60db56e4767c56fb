"""``update``: codebooks that follow a stream as well as a fit on all of it would."""

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import QUANTIZERS, Quantizer
from tests.conftest import assert_same_state, clustered, gaussian

STREAM_DIM = 6
BATCH = 80


def made(kind: str, decay: float, codebook_size: int = 8) -> Quantizer:
    return QUANTIZERS[kind](STREAM_DIM, 2, codebook_size, decay=decay)


def draw(rows: int, seed: int, clusters: int = 6) -> Tensor:
    return clustered(rows, STREAM_DIM, seed, clusters)


def steady_ratios(kind: str, rows: int, stream: int) -> tuple[float, float]:
    """Error of a fit on so many rows, and after a stream, against a large fit."""
    unseen = draw(2000, seed=99 + stream)
    whole = made(kind, decay=0.98).fit(draw(1500, seed=1 + stream)).error(unseen)
    first = 200 if rows < 1500 else 1  # the large fit itself, or one on other rows
    quantizer = made(kind, decay=0.98).fit(draw(rows, seed=first + stream))
    before = quantizer.error(unseen) / whole
    for step in range(80):
        quantizer.update(draw(BATCH, seed=1000 * (stream + 1) + step))
    return before, quantizer.error(unseen) / whole


def test_a_steady_stream_is_worth_a_fit_on_all_of_it(kind: str) -> None:
    before, after = steady_ratios(kind, rows=100, stream=0)
    assert before > 1.05  # a few rows alone are not enough
    assert after < 1.05


@pytest.mark.slow
@pytest.mark.parametrize("stream", range(6))
def test_steady_streams_mend_and_never_spoil(kind: str, stream: int) -> None:
    """Where k-means starts in a poor minimum it may stay there, but not get worse."""
    before, after = steady_ratios(kind, rows=100, stream=stream)
    assert after < before
    before, after = steady_ratios(kind, rows=1500, stream=stream)
    assert before == 1
    assert after < 1.05


def drifted(rows: int, seed: int, step: int) -> Tensor:
    """The mean moves, and the scale doubles in forty steps."""
    return draw(rows, seed) * (1 + 0.025 * step) + 0.02 * step


def test_a_drifting_stream_is_followed(kind: str) -> None:
    quantizer = made(kind, decay=0.85).fit(drifted(300, seed=1, step=0))
    left_alone = copy.deepcopy(quantizer)
    for step in range(50):
        quantizer.update(drifted(BATCH, seed=1000 + step, step=step))
    newest = drifted(1000, seed=2, step=49)
    fresh = made(kind, decay=0.85).fit(drifted(300, seed=30, step=49)).error(newest)
    assert quantizer.error(newest) < 1.5 * fresh
    assert left_alone.error(newest) > 4 * fresh


def half(rows: int, seed: int) -> Tensor:
    """Only the clusters on one side: half of the stream has collapsed."""
    x = draw(3 * rows, seed, clusters=12)
    x = x[x[:, 0] > 0][:rows]
    assert len(x) == rows
    return x


def test_dead_codewords_come_to_where_the_rows_are(kind: str) -> None:
    quantizer = made(kind, 0.9, codebook_size=16).fit(draw(500, seed=1, clusters=12))
    newest = half(600, seed=2)
    fresh = made(kind, 0.9, codebook_size=16).fit(half(500, seed=3)).error(newest)
    stale = quantizer.error(newest)
    assert stale > 1.05 * fresh
    used = quantizer.encode(newest)
    for step in range(50):
        quantizer.update(half(BATCH, seed=1000 + step))
    assert quantizer.error(newest) < min(stale, 1.1 * fresh)
    used_now = quantizer.encode(newest)
    before, after = (
        sum(len(codes[:, m].unique()) for m in range(2)) for codes in (used, used_now)
    )
    assert after > before


def test_updates_leave_finite_buffers(kind: str) -> None:
    """Rows that are one, equal, far, none or zero, in any order."""
    quantizer = made(kind, decay=0.5).fit(draw(60, seed=1))
    batches = [
        draw(1, seed=2),
        torch.zeros(20, STREAM_DIM),
        draw(1, seed=3).repeat(30, 1),
        torch.zeros(0, STREAM_DIM),
        1e6 * draw(20, seed=4),
        1e-6 * draw(20, seed=5),
    ]
    for batch in batches * 4:
        assert quantizer.update(batch) is quantizer
    for name, buffer in quantizer.named_buffers():
        assert buffer.isfinite().all(), name
    assert quantizer.encode(draw(20, seed=6)).shape == (20, 2)


def test_updates_repeat(kind: str) -> None:
    first = made(kind, decay=0.9).fit(draw(60, seed=1))
    twins = [first, copy.deepcopy(first)]
    for step in range(5):
        for twin in twins:
            twin.update(draw(BATCH, seed=step))
    assert_same_state(*twins)


def test_decay_sets_the_memory(kind: str) -> None:
    """After the rows have moved, the forgetful one is nearer to the new ones."""
    first, moved = draw(200, seed=1), draw(200, seed=2) + 1
    errors = []
    for decay in (0.5, 0.99):
        quantizer = made(kind, decay=decay).fit(first)
        for _ in range(4):
            quantizer.update(moved)
        errors.append(quantizer.error(moved))
    assert errors[0] < errors[1]


# --- several processes ----------------------------------------------------------


def summed_over(parties: int) -> Callable[[int], Callable[[Tensor], None]]:
    """A reduction over threads: all wait, all get the same sum in the same order."""
    slots: list[Tensor | None] = [None] * parties
    barrier = threading.Barrier(parties, timeout=60)

    def of(rank: int) -> Callable[[Tensor], None]:
        def reduce(tensor: Tensor) -> None:
            slots[rank] = tensor.clone()
            barrier.wait()
            total = torch.stack([slot for slot in slots if slot is not None]).sum(dim=0)
            barrier.wait()
            tensor.copy_(total)

        return reduce

    return of


def in_parts(quantizer: Quantizer, batches: list[list[Tensor]]) -> list[Quantizer]:
    """Copies of the quantizer, each fed its part of every batch."""
    parties = len(batches[0])
    reduce_of = summed_over(parties)

    def run(rank: int) -> Quantizer:
        mine, reduce = copy.deepcopy(quantizer), reduce_of(rank)
        for parts in batches:
            mine.update(parts[rank], reduce)
        return mine

    with ThreadPoolExecutor(parties) as pool:
        return list(pool.map(run, range(parties)))


@pytest.mark.usefixtures("one_thread")
def test_parts_of_a_batch_move_all_processes_alike(kind: str) -> None:
    quantizer = made(kind, decay=0.9).double().fit(draw(200, seed=1))
    batches = [draw(90, seed=step).double() for step in range(5)]
    uneven = [[batch[:30], batch[30:80], batch[80:]] for batch in batches]
    parts = in_parts(quantizer, uneven)
    assert len(parts) == 3
    for other in parts[1:]:
        assert_same_state(parts[0], other)
    for batch in batches:
        quantizer.update(batch)
    for name, value in quantizer.state_dict().items():
        torch.testing.assert_close(parts[0].state_dict()[name], value, msg=name)


@pytest.mark.usefixtures("one_thread")
def test_a_process_without_rows_takes_part(kind: str) -> None:
    quantizer = made(kind, decay=0.9).double().fit(draw(200, seed=1))
    batches = [draw(90, seed=step).double() for step in range(3)]
    parts = in_parts(quantizer, [[batch, batch[:0]] for batch in batches])
    assert_same_state(*parts)
    for batch in batches:
        quantizer.update(batch)
    for name, value in quantizer.state_dict().items():
        torch.testing.assert_close(parts[1].state_dict()[name], value, msg=name)


def test_a_long_stream_of_the_same_rows_settles(kind: str) -> None:
    x = gaussian(64, STREAM_DIM) + 1
    quantizer = made(kind, decay=0.9).fit(x)
    first = quantizer.error(x)
    for _ in range(30):
        quantizer.update(x)
    assert quantizer.error(x) < 1.02 * first
