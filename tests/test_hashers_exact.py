"""Hashers one by one: their objectives, and FAISS where it has the same method."""

import itertools
import math

import faiss
import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from gradsnap.coders.hashers import (
    DiscreteHasher,
    ITQHasher,
    KernelHasher,
    PrincipalHasher,
    SpectralHasher,
    WeightedHasher,
)
from gradsnap.coders.hashers.anchored import kernel_width, likeness
from gradsnap.coders.hashers.ksh import Residue, _objective, leading_direction
from gradsnap.coders.hashers.linear import rotate_to_signs
from gradsnap.coders.hashers.sdh import cyclic_descent
from gradsnap.coders.hashers.weighted import pair_weights
from gradsnap.coders.packing import unpacked_bits
from gradsnap.coders.rotations import principal_directions
from gradsnap.coders.similarity import Similarity, many_hot
from gradsnap.errors import InputError
from tests.conftest import clustered, gaussian
from tests.platforms import peak_memory


def quantization_loss(projected: Tensor) -> float:
    """‖B − V‖² with B the signs of V (n, bits)."""
    return float((projected.sign() - projected).square().sum())


def test_itq_loss_never_rises_and_rotations_stay_orthogonal() -> None:
    projected = clustered(200, 6) - clustered(200, 6).mean(dim=0)
    rotation, losses = torch.eye(6), []
    for _ in range(20):
        losses.append(quantization_loss(projected @ rotation))
        rotation = rotate_to_signs(projected, rotation)
        torch.testing.assert_close(
            rotation.T @ rotation, torch.eye(6), atol=1e-5, rtol=0
        )
    assert all(b <= a * (1 + 1e-5) for a, b in itertools.pairwise(losses))
    assert losses[-1] < losses[0]


def test_itq_does_as_well_as_faiss() -> None:
    x = clustered(400, 12, clusters=30)
    ours = ITQHasher(12, 6).fit(x)
    theirs = faiss.ITQTransform(12, 6, True)
    theirs.train(x.numpy())
    projected = (x - ours.mean) @ ours.directions
    # FAISS normalizes rows first; so compare on rows it would get
    unit = torch.nn.functional.normalize(x - x.mean(dim=0), dim=1)
    mine = ITQHasher(12, 6).fit(unit)
    my_loss = quantization_loss((unit - mine.mean) @ mine.directions)
    their_rows = torch.from_numpy(theirs.apply(x.numpy()))
    assert my_loss < 1.05 * quantization_loss(their_rows)
    assert quantization_loss(projected) > 0


def test_principal_directions_equal_the_singular_vectors() -> None:
    centred = clustered(100, 7) - clustered(100, 7).mean(dim=0)
    found = principal_directions(centred, 4)
    _, _, right = np.linalg.svd(centred.numpy().astype(float), full_matrices=False)
    for k in range(4):
        assert abs(float(found[:, k] @ torch.from_numpy(right[k]).float())) > 0.9999
        assert found[:, k][found[:, k].abs().argmax()] > 0


@pytest.mark.parametrize("kind", [PrincipalHasher, ITQHasher])
def test_no_more_bits_than_directions(kind: type[PrincipalHasher]) -> None:
    with pytest.raises(InputError, match="9 > 8"):
        kind(8, 9)


def test_spectral_hashing_equals_its_formula() -> None:
    x = gaussian(60, 3) * torch.tensor([5.0, 2.0, 1.0])
    hasher = SpectralHasher(3, 5).fit(x)
    centred = x - x.mean(dim=0)
    axes = principal_directions(centred, 3)
    v = (centred @ axes).double()
    low, high = v.amin(dim=0), v.amax(dim=0)
    modes = sorted(
        (k / float(high[axis] - low[axis]), axis, k)
        for axis in range(3)
        for k in range(1, 6)
    )[:5]
    bits = unpacked_bits(hasher.encode(x), 5)
    for bit, (_, axis, k) in enumerate(modes):
        extent = float(high[axis] - low[axis])
        for row in range(60):
            angle = math.pi / 2 + k * math.pi * float(v[row, axis] - low[axis]) / extent
            if abs(math.sin(angle)) > 1e-3:
                assert bool(bits[row, bit]) == (math.sin(angle) > 0)


def test_likeness_equals_its_formula() -> None:
    x, anchors = gaussian(5, 4), gaussian(3, 4, seed=1)
    width = kernel_width(x, anchors)
    found = likeness(x, anchors, width)
    for i, j in itertools.product(range(5), range(3)):
        square = float((x[i] - anchors[j]).double().square().sum())
        assert found[i, j] == pytest.approx(math.exp(-square / width), abs=1e-5)


@pytest.mark.parametrize("multiple", [False, True])
def test_similarity_equals_its_table(multiple: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (30,), generator=generator)
    if multiple:
        labels = torch.rand(30, 5, generator=generator) < 0.3
    rows = labels.tolist()
    table = torch.tensor(
        [
            [
                1.0 if (any(map(min, a, b)) if multiple else a == b) else -1.0
                for b in rows
            ]
            for a in rows
        ]
    )
    values = gaussian(30, 3)
    torch.testing.assert_close(Similarity.of(labels).times(values), table @ values)
    hashes = gaussian(30, 2).sign()
    residue = Residue(Similarity.of(labels), 8, hashes[:, :1]).without(hashes[:, 1])
    wanted = (8 * table - hashes @ hashes.T) @ values
    torch.testing.assert_close(residue.times(values), wanted, rtol=1e-4, atol=1e-4)


def test_each_bit_is_the_best_given_the_others() -> None:
    """SDH's step: no single flip lowers ‖B W‖² − 2 tr(B Qᵀ), and none may raise it."""
    signs, pull, classifier = gaussian(20, 4).sign(), gaussian(20, 4, 1), gaussian(4, 3)

    def loss(b: Tensor) -> float:
        return float((b @ classifier).square().sum() - 2 * (b * pull).sum())

    found = cyclic_descent(signs, pull, classifier)
    assert loss(found) <= loss(signs)
    for row, bit in itertools.product(range(20), range(4)):
        flipped = found.clone()
        flipped[row, bit] *= -1
        assert loss(flipped) >= loss(found) - 1e-4


def test_discrete_hashes_are_those_of_a_classifier() -> None:
    x = clustered(120, clusters=4)
    labels = (x @ gaussian(8, 3, seed=7)).argmax(dim=1)
    hasher = DiscreteHasher(8, 8, num_anchors=200, ridge=1e-4).fit(x, labels)
    signs = unpacked_bits(hasher.encode(x), 8).float() * 2 - 1
    targets = many_hot(labels)
    fit = torch.linalg.lstsq(signs, targets).solution
    right = ((signs @ fit).argmax(dim=1) == labels).float().mean()
    assert right > 0.9


def test_gradient_of_the_smooth_objective() -> None:
    white, b = gaussian(30, 5).double(), gaussian(1, 5, seed=1)[0].double()
    similarity = Similarity.of(torch.arange(30) % 3)
    residue = Residue(similarity, 4, white.new_empty(30, 0))
    _, gradient = _objective(white, residue, b)
    for k in range(5):
        step = torch.zeros(5, dtype=torch.float64)
        step[k] = 1e-5
        up, _ = _objective(white, residue, b + step)
        down, _ = _objective(white, residue, b - step)
        slope = (up - down) / 2e-5
        assert 2 * gradient[k] * 0.5 == pytest.approx(
            slope, rel=1e-4
        )  # h' = (1 − h²)/2


def test_kernel_hasher_starts_at_the_leading_direction_and_climbs() -> None:
    hasher = KernelHasher(8, 4, num_anchors=12)
    white = gaussian(60, 12)
    residue = Residue(Similarity.of(torch.arange(60) % 3), 4, white.new_empty(60, 0))
    table = white.T @ residue.times(white)
    start = leading_direction(table)
    largest = float(torch.linalg.eigvalsh(table)[-1])
    assert float(start @ table @ start) == pytest.approx(largest, rel=1e-3)
    before, _ = _objective(white, residue, 5 * start)
    after, _ = _objective(white, residue, hasher._climb(white, residue, 5 * start))
    assert after > before


@pytest.mark.parametrize("size", [3, 100])
def test_leading_direction_is_that_of_numpy(size: int) -> None:
    half = gaussian(size, size)
    form = half + half.T
    values, vectors = np.linalg.eigh(form.double().numpy())
    found = leading_direction(form)
    assert float(found @ form @ found) == pytest.approx(values[-1], rel=1e-5)
    assert abs(float(found @ torch.from_numpy(vectors[:, -1]).float())) > 0.99999
    assert found[found.abs().argmax()] > 0  # whatever sign a machine finds first
    assert torch.equal(found, leading_direction(form))


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize("scale", [0.0, 1.0, -1.0])
def test_a_form_without_a_leading_direction_has_one_all_the_same(
    size: int, scale: float
) -> None:
    """All directions tie; any unit vector will do."""
    found = leading_direction(scale * torch.eye(size))
    assert float(found.norm()) == pytest.approx(1, abs=1e-5)


def test_fewer_rows_than_anchors() -> None:
    x, labels = clustered(20), torch.arange(20) % 2
    for kind in (KernelHasher, DiscreteHasher):
        assert kind(8, 4, num_anchors=50).fit(x, labels).encode(x).shape == (20, 1)
    sampled = KernelHasher(8, 4, num_anchors=5, rows=12, iterations=2).fit(x, labels)
    assert (sampled.anchors[:, None] == x).all(dim=2).any(dim=1).all()
    whole = KernelHasher(8, 4, num_anchors=5, iterations=2).fit(x, labels)
    assert not torch.equal(sampled.mean, whole.mean)
    with pytest.raises(InputError, match="rows must be at least 2"):
        KernelHasher(8, 4, rows=1)
    with pytest.raises(InputError, match="num_anchors must be at least 1"):
        KernelHasher(8, 4, num_anchors=0)


# --- weighted Hamming distance --------------------------------------------------


def listed_weights(bits: Tensor, labels: Tensor) -> Tensor:
    """The weights by scipy, over pairs that are listed one by one."""
    alike: list[list[float]] = []
    unlike: list[list[float]] = []
    for i, j in itertools.permutations(range(len(bits)), 2):
        row = (bits[i] != bits[j]).double().tolist()
        shared = labels[i] == labels[j] if labels.ndim == 1 else labels[i] & labels[j]
        (alike if bool(shared.any()) else unlike).append(row)
    rows = [np.array(part) / math.sqrt(len(part)) for part in (alike, unlike)]
    wanted = np.concatenate(
        [np.zeros(len(alike)), np.full(len(unlike), 1 / math.sqrt(len(unlike)))]
    )
    found, _ = scipy.optimize.nnls(np.concatenate(rows), wanted)
    return torch.from_numpy(found / found.mean()).float()


def labels_of(kind: str, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if kind == "single":
        return torch.randint(3, (rows,), generator=generator)
    return torch.rand(rows, 5, generator=generator) < 0.3  # some have no label


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["single", "several"])
def test_pair_weights_are_those_of_listed_pairs(kind: str, seed: int) -> None:
    labels = labels_of(kind, 24)
    told = labels[:, None] if labels.ndim == 1 else labels.float()
    noise = gaussian(24, 7, seed)
    signal = told.float() @ gaussian(told.shape[1], 7, seed + 50)
    bits = noise + signal - signal.mean(dim=0) > 0
    weights = pair_weights(bits, labels)
    assert float(weights.mean()) == pytest.approx(1, abs=1e-5)
    assert (weights >= 0).all()
    torch.testing.assert_close(
        weights, listed_weights(bits, labels), rtol=1e-3, atol=1e-3
    )


def test_bits_that_never_differ_weigh_alike() -> None:
    """There is nothing to learn from: all weights would be zero."""
    labels = torch.arange(10) % 2
    assert torch.equal(pair_weights(torch.ones(10, 5) > 0, labels), torch.ones(5))


def test_a_bit_that_tells_the_label_takes_all_the_weight() -> None:
    labels = torch.arange(40) % 2
    bits = gaussian(40, 6) > 0
    bits[:, 2] = labels == 1
    wanted = torch.tensor([0.0, 0.0, 6.0, 0.0, 0.0, 0.0])
    torch.testing.assert_close(pair_weights(bits, labels), wanted, rtol=0, atol=0.3)


def test_weighted_bits_are_the_hashers_own() -> None:
    x, labels = clustered(60), torch.arange(60) % 3
    hasher = WeightedHasher(8, 6, hasher="ksh", hasher_options={"num_anchors": 9})
    hasher.fit(x, labels)
    own = KernelHasher(8, 6, num_anchors=9).fit(x, labels)
    assert torch.equal(hasher.encode(x), own.encode(x))
    bits = unpacked_bits(own.encode(x), 6)
    assert torch.equal(hasher.bit_weights, pair_weights(bits, labels))
    with pytest.raises(InputError, match="cannot be 'weighted'; choose from sign, lsh"):
        WeightedHasher(8, 6, hasher="weighted")


@pytest.mark.parametrize(
    "kind", ["single", pytest.param("several", marks=pytest.mark.slow)]
)
def test_weights_of_many_rows_take_little_memory(kind: str) -> None:
    """All 7 · 10⁷ pairs, or 64 · 64 numbers a row, would take gigabytes."""
    rows, bits = 12_000, 64
    labels = torch.arange(rows) % 10
    if kind == "several":
        labels = torch.rand(rows, 20, generator=torch.Generator()) < 0.5
        assert len(labels.unique(dim=0)) > 8_000
    hasher = WeightedHasher(bits, bits, hasher="sign")
    x = gaussian(rows, bits)
    before = peak_memory()
    hasher.fit(x, labels)
    assert peak_memory() - before < 400 * 1024  # KiB
    assert (hasher.weights > 0).sum() > bits / 2
