"""k-means and its parts, against loops, scikit-learn and laws."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from torch import Tensor

from gradsnap.coders.quantizers.kmeans import (
    DEAD_SHARE,
    accumulate,
    argmin_,
    assign,
    follow,
    kmeans,
    progressive_kmeans,
    split_dead,
)
from tests import reference
from tests.conftest import clustered, gaussian, variance


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def objective(x: Tensor, centroids: Tensor) -> float:
    """Mean squared distance of x (n, d) to the nearest of centroids (K, d)."""
    return float(torch.cdist(x, centroids).amin(dim=1).square().mean())


# --- argmin_ ------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    size=st.sampled_from([1, 2, 16, 256, 1000]),
    rows=st.integers(1, 20),
    seed=st.integers(0, 10_000),
    levels=st.sampled_from([1, 2, 5, 1_000_000]),
    exponent=st.integers(-12, 12),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_argmin_is_the_first_smallest(
    size: int, rows: int, seed: int, levels: int, exponent: int, dtype: torch.dtype
) -> None:
    numbers = torch.randint(-levels, levels, (rows, size), generator=generator(seed))
    scores = numbers.to(dtype) * 10.0**exponent
    first = [row.tolist().index(min(row.tolist())) for row in scores]
    found = argmin_(scores.clone())
    assert found.dtype == torch.int64
    assert found.tolist() == first


def test_argmin_parts_neighbours_in_floating_point() -> None:
    one = torch.ones(3, 300)
    one[0, 250] = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0))
    one[1, 299] = 1 - 1e-6
    assert argmin_(one).tolist() == [250, 299, 0]


def test_argmin_copes_with_far_and_infinite_scores() -> None:
    scores = torch.tensor([[3e38, -3e38, 1.0], [float("inf"), 5.0, 5.0]])
    assert argmin_(scores).tolist() == [1, 1]


# --- assign and accumulate ----------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("blocks", "rows", "size", "dim"), [(1, 50, 7, 3), (3, 40, 16, 5)]
)
def test_assign_is_the_nearest(
    dtype: torch.dtype, blocks: int, rows: int, size: int, dim: int
) -> None:
    x = torch.randn(blocks, rows, dim, generator=generator(1)).to(dtype)
    centroids = torch.randn(blocks, size, dim, generator=generator(2)).to(dtype)
    found = assign(x, centroids)
    assert found.shape == (blocks, rows)
    assert torch.equal(found, torch.cdist(x, centroids).argmin(dim=2))
    for block in range(blocks):
        loop = reference.assign(x[block].numpy(), centroids[block].numpy())
        assert found[block].tolist() == loop.tolist()


def test_assign_takes_the_first_of_equal_centroids() -> None:
    word = torch.tensor([[1.0, 2.0]])
    assert assign(word[None], word.repeat(5, 1)[None]).tolist() == [[0]]


def test_assign_in_chunks_is_assign(monkeypatch: pytest.MonkeyPatch) -> None:
    x, centroids = gaussian(100)[None], gaussian(9, seed=1)[None]
    whole = assign(x, centroids)
    monkeypatch.setattr("gradsnap.coders.quantizers.kmeans.CHUNK_ENTRIES", 30)
    assert torch.equal(assign(x, centroids), whole)


def test_accumulate_is_its_loop() -> None:
    x = torch.randn(2, 60, 3, generator=generator(1)).double()
    chosen = torch.randint(8, (2, 60), generator=generator(2))
    chosen[chosen == 5] = 4  # one codeword gets nothing
    counts, sums = accumulate(x, chosen, 8)
    for block in range(2):
        expected = reference.accumulate(x[block].numpy(), chosen[block].numpy(), 8)
        assert counts[block].tolist() == expected[0].tolist()
        np.testing.assert_allclose(sums[block].numpy(), expected[1], atol=1e-12)
    assert counts[:, 5].tolist() == [0, 0]


# --- k-means ------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, 3, 30])
def test_kmeans_is_scikit_learns_from_the_same_start(iterations: int) -> None:
    x = clustered(400, dim=5).double()
    start = x[:10].clone()
    theirs = KMeans(
        10, init=start.numpy(), n_init=1, max_iter=iterations, tol=0, algorithm="lloyd"
    ).fit(x.numpy())
    ours, counts = kmeans(
        x[None], 10, generator=generator(), iterations=iterations, start=start[None]
    )
    assert (counts > 0).all()
    np.testing.assert_allclose(ours[0].numpy(), theirs.cluster_centers_, atol=1e-10)


def test_kmeans_never_raises_its_objective() -> None:
    x = gaussian(500, dim=6).double()
    errors = [
        objective(x, kmeans(x[None], 16, generator=generator(), iterations=steps)[0][0])
        for steps in range(1, 20)
    ]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(errors))
    assert errors[-1] < 0.95 * errors[0]


def test_kmeans_clusters_each_block_by_itself() -> None:
    left, right = clustered(300, dim=4), gaussian(300, dim=4)
    together, _ = kmeans(torch.stack([left, right]), 8, generator=generator())
    for block, rows in enumerate((left, right)):
        alone, _ = kmeans(rows[None], 8, generator=generator())
        torch.testing.assert_close(together[block], alone[0])


def test_kmeans_leaves_its_input_and_start_alone() -> None:
    x, start = gaussian(100)[None], gaussian(8, seed=1)[None]
    x_before, start_before = x.clone(), start.clone()
    kmeans(x, 8, generator=generator(), start=start)
    assert torch.equal(x, x_before)
    assert torch.equal(start, start_before)


def test_kmeans_counts_its_last_assignment() -> None:
    x = clustered(300)[None]
    _, counts = kmeans(x, 16, generator=generator())
    assert counts.sum() == 300
    assert counts.shape == (1, 16)


def test_kmeans_draws_distinct_rows() -> None:
    x = torch.arange(20.0)[None, :, None]
    centroids, counts = kmeans(x, 20, generator=generator(), iterations=1)
    assert centroids.flatten().sort().values.tolist() == list(range(20))
    assert counts.tolist() == [[1.0] * 20]


def test_kmeans_with_fewer_rows_than_centroids_repeats_them() -> None:
    x = gaussian(3)[None]
    centroids, _ = kmeans(x, 16, generator=generator())
    assert centroids.isfinite().all()
    assert objective(x[0], centroids[0]) < 1e-10


def test_kmeans_leaves_no_centroid_behind() -> None:
    """Started on one far point, all centroids but one are dead at first."""
    x = clustered(500).double()
    start = torch.full((1, 16, 8), 50.0, dtype=torch.float64)
    centroids, counts = kmeans(x[None], 16, generator=generator(), start=start)
    assert (counts > 0).all()
    drawn, _ = kmeans(x[None], 16, generator=generator())
    assert objective(x, centroids[0]) < 1.5 * objective(x, drawn[0])


def test_progressive_kmeans_finds_lower_minima_in_many_dimensions() -> None:
    turned = torch.linalg.qr(gaussian(16, dim=16, seed=1)).Q
    x = gaussian(1000, dim=16) * torch.linspace(3, 0.1, 16) @ turned
    centroids, counts = progressive_kmeans(x, 32, generator=generator())
    assert centroids.shape == (32, 16)
    assert counts.sum() == 1000
    plain, _ = kmeans(x[None], 32, generator=generator(), iterations=100)
    assert objective(x, centroids) < objective(x, plain[0])


def test_progressive_kmeans_follows_a_shift() -> None:
    x = clustered(300)
    centroids, _ = progressive_kmeans(x, 16, generator=generator())
    moved, _ = progressive_kmeans(x + 3, 16, generator=generator())
    assert objective(x + 3, moved) == pytest.approx(objective(x, centroids), rel=0.05)
    assert objective(x, centroids) < 0.2 * variance(x)


# --- revival ------------------------------------------------------------------


def test_a_dead_codeword_becomes_half_of_the_most_used() -> None:
    centroids = torch.tensor([[[9.0, 9.0], [4.0, 0.0], [0.0, 2.0], [1.0, 1.0]]])
    counts = torch.tensor([[0.0, 100.0, 40.0, 50.0]])
    assert split_dead(centroids, counts, share=DEAD_SHARE) == 1
    assert counts.tolist() == [[50.0, 50.0, 40.0, 50.0]]
    halves = centroids[0, :2]
    assert (halves - torch.tensor([4.0, 0.0])).abs().max() < 0.01
    assert not torch.equal(halves[0], halves[1])
    torch.testing.assert_close(halves.mean(dim=0), torch.tensor([4.0, 0.0]))
    assert centroids[0, 2:].tolist() == [[0.0, 2.0], [1.0, 1.0]]


def test_revival_is_by_block_and_pairs_dead_with_donors() -> None:
    centroids = gaussian(12, dim=3).view(2, 6, 3)
    counts = torch.tensor([[5.0, 6, 7, 8, 9, 10], [0.0, 0.1, 80, 60, 70, 50]])
    before = centroids.clone()
    assert split_dead(centroids, counts, share=DEAD_SHARE) == 2
    assert torch.equal(centroids[0], before[0])
    assert counts[0].tolist() == [5.0, 6, 7, 8, 9, 10]
    assert counts[1].tolist() == [40.0, 35, 40, 60, 35, 50]
    torch.testing.assert_close(centroids[1, 0], before[1, 2], rtol=0.01, atol=0.01)
    torch.testing.assert_close(centroids[1, 1], before[1, 4], rtol=0.01, atol=0.01)


def test_a_crowded_codeword_at_the_origin_is_split_too() -> None:
    centroids = torch.tensor([[[0.0, 0.0], [8.0, 8.0], [1.0, 0.0], [0.0, 1.0]]])
    counts = torch.tensor([[100.0, 0.0, 10.0, 10.0]])
    split_dead(centroids, counts, share=DEAD_SHARE)
    assert not torch.equal(centroids[0, 0], centroids[0, 1])
    assert centroids[0, :2].abs().max() < 0.01


def test_nothing_is_revived_where_all_live_or_none_does() -> None:
    centroids = gaussian(8, dim=2)[None]
    for counts in (torch.full((1, 8), 3.0), torch.zeros(1, 8)):
        before, weights = centroids.clone(), counts.clone()
        assert split_dead(centroids, counts, share=DEAD_SHARE) == 0
        assert torch.equal(centroids, before)
        assert torch.equal(counts, weights)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    size=st.sampled_from([2, 4, 16, 64]),
    seed=st.integers(0, 1000),
    dead=st.floats(0, 0.9),
)
def test_revival_moves_weight_and_makes_none(size: int, seed: int, dead: float) -> None:
    counts = torch.rand(3, size, generator=generator(seed)).double()
    counts[torch.rand(3, size, generator=generator(seed + 1)) < dead] = 0
    centroids = torch.randn(3, size, 2, generator=generator(seed)).double()
    total, poorest = counts.sum(dim=1), counts.amin(dim=1)
    revived = split_dead(centroids, counts, share=DEAD_SHARE)
    assert (counts.sum(dim=1) <= total * (1 + 1e-12)).all()
    assert (counts.sum(dim=1) >= total * (1 - DEAD_SHARE)).all()  # less the dead
    assert (counts.amin(dim=1) >= poorest).all()
    assert 0 <= revived <= 3 * (size // 2)


# --- sequential k-means -------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_follow_is_the_weighted_mean_of_all_that_was_given(decay: float) -> None:
    x = gaussian(40, dim=2).double()
    centroids = gaussian(4, dim=2, seed=1).double()[None]
    counts = torch.tensor([[10.0, 20.0, 30.0, 15.0]], dtype=torch.float64)
    expected = reference.follow(
        centroids[0].numpy(), counts[0].numpy(), x.numpy(), decay
    )
    found = accumulate(x[None], assign(x[None], centroids), 4)
    assert found[0].min() > 2  # so that nothing is revived
    follow(centroids, counts, *found, decay)
    np.testing.assert_allclose(centroids[0].numpy(), expected[0], atol=1e-12)
    np.testing.assert_allclose(counts[0].numpy(), expected[1], atol=1e-12)


def test_follow_leaves_what_got_nothing_in_place() -> None:
    centroids = torch.tensor([[[0.0], [5.0], [9.0]]])
    counts = torch.tensor([[10.0, 10.0, 10.0]])
    follow(centroids, counts, torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1, 3, 1), 0.9)
    assert centroids[0, 1:].tolist() == [[5.0], [9.0]]
    torch.testing.assert_close(centroids[0, 0], torch.tensor([0.1]))
    torch.testing.assert_close(counts, torch.tensor([[10.0, 9.0, 9.0]]))


def test_follow_without_memory_is_one_step_of_lloyd() -> None:
    x = clustered(200, dim=3).double()
    start = x[None, :8].clone()
    lloyd, weights = kmeans(
        x[None], 8, generator=generator(), iterations=1, start=start
    )
    centroids, counts = start.clone(), torch.ones(1, 8, dtype=torch.float64)
    follow(
        centroids, counts, *accumulate(x[None], assign(x[None], start), 8), decay=0.0
    )
    assert (weights > 200 / 8 * DEAD_SHARE).all()
    torch.testing.assert_close(centroids, lloyd)
    torch.testing.assert_close(counts, weights)
