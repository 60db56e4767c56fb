"""Whether compiled kernels or their twins in torch serve."""

import os
import sys
import threading
import time

import pytest
import torch

from gradsnap import ExhaustiveIndex, ProductQuantizer
from gradsnap.compiled import kernels, on_threads, sparing_numba

KERNELS = "gradsnap.index.scanning_compiled"


@pytest.fixture
def not_imported_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.delitem(sys.modules, "numba")


@pytest.mark.usefixtures("not_imported_yet")
def test_a_program_that_does_little_spares_numba() -> None:
    with sparing_numba(True):
        assert kernels(KERNELS) is None
        with sparing_numba(False):  # who is inside of another changes nothing for it
            assert kernels(KERNELS) is None
    with sparing_numba(False):
        assert kernels(KERNELS) is not None


def test_what_is_imported_already_serves() -> None:
    pytest.importorskip("numba")
    with sparing_numba(True):
        assert kernels(KERNELS) is not None


def test_the_end_of_a_failed_search_is_noticed(not_imported_yet: None) -> None:
    with pytest.raises(ZeroDivisionError), sparing_numba(True):
        _ = 1 // 0
    assert kernels(KERNELS) is not None


def test_answers_do_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    rows = torch.randn(600, 8, generator=torch.Generator().manual_seed(0))
    quantizer = ProductQuantizer(8, 2, 16)
    quantizer.fit(rows)
    index = ExhaustiveIndex(quantizer)
    index.add(rows)
    expected = index.search(rows[:5], 20)
    monkeypatch.delitem(sys.modules, "numba")
    with sparing_numba(True):
        found = index.search(rows[:5], 20)
    assert torch.equal(found.distances, expected.distances)
    assert torch.equal(torch.as_tensor(found.ids), torch.as_tensor(expected.ids))


# --- threads --------------------------------------------------------------------


def test_results_come_in_the_order_of_the_jobs(two_threads: None) -> None:
    def slowly(job: int) -> tuple[int, int]:
        time.sleep(0.002 * (job % 3))
        return job, threading.get_ident()

    found = on_threads(slowly, range(40))
    assert [job for job, _ in found] == list(range(40))
    assert len({thread for _, thread in found}) == 2


def test_of_jobs_that_fail_the_first_ones_error_is_raised(two_threads: None) -> None:
    done = []

    def fail_later(job: int) -> None:
        done.append(job)
        if job in (3, 5):
            time.sleep(0.02 if job == 3 else 0)
            raise ValueError(str(job))

    with pytest.raises(ValueError, match="3"):
        on_threads(fail_later, range(9))
    assert sorted(done) == list(range(9))


def test_jobs_may_have_jobs_of_their_own(two_threads: None) -> None:
    def sums(job: int) -> int:
        return sum(on_threads(lambda other: job * other, range(5)))

    assert on_threads(sums, range(64)) == [10 * job for job in range(64)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(two_threads: None) -> None:
    on_threads(abs, range(4))
    child = os.fork()
    if child == 0:
        right = on_threads(abs, [-1, 2, -3]) == [1, 2, 3]
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
