"""The smallest numbers of each row, by NumPy's sort of doubles and by ``topk``."""

import pytest
import torch

from gradsnap.coders.quantizers.smallest import smallest
from tests.conftest import gaussian


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("k", [1, 7, 20])
def test_the_smallest_are_those_that_a_sort_puts_first(
    k: int, ascending: bool, dtype: torch.dtype
) -> None:
    """Of both signs, with ties, tiny and huge numbers; as a view with gaps."""
    values = gaussian(400, 20, seed=3).to(dtype).view(100, 4, 20).transpose(0, 1)
    values[0] = (values[0] * 2).round()  # ties, and zeros of both signs
    values[1, ::2] *= 1e-42
    values[2] *= 1e37
    best, places = smallest(values, k, ascending)
    torch.testing.assert_close(values.gather(2, places), best, rtol=0, atol=0)
    found = best if ascending else best.sort(dim=2).values
    assert torch.equal(found, values.sort(dim=2).values[..., :k])
    assert all(len(set(row)) == k for row in places.flatten(0, 1).tolist())


def test_an_infinity_keeps_its_place() -> None:
    values = torch.tensor([[torch.inf, 1.0, -torch.inf, torch.inf, 0.0]])
    best, places = smallest(values, 5)
    assert places[0, :3].tolist() == [2, 4, 1]
    assert sorted(places[0, 3:].tolist()) == [0, 3]
    assert bool(best.isfinite().all())
