"""Small seeded rows, and one fitted quantizer of every kind, made once."""

import copy
import functools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import QUANTIZERS, Quantizer

DIM = 8
NUM_CODEBOOKS = 3
CODEBOOK_SIZE = 16
ROWS = 300


def gaussian(rows: int, dim: int = DIM, seed: int = 0) -> Tensor:
    """Rows (rows, dim) of the standard normal distribution."""
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def clustered(rows: int, dim: int = DIM, seed: int = 0, clusters: int = 12) -> Tensor:
    """Rows around centres that do not depend on the seed, so that draws are alike."""
    centres = 2 * gaussian(clusters, dim, seed=1000)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(clusters, (rows,), generator=generator)
    return centres[chosen] + 0.5 * torch.randn(rows, dim, generator=generator)


def variance(x: Tensor) -> float:
    """Mean squared distance of the rows to their mean: the error of one codeword."""
    return float((x - x.mean(dim=0)).double().square().sum(dim=1).mean())


@functools.cache
def _fitted(
    kind: str,
    dim: int,
    num_codebooks: int,
    codebook_size: int,
    rows: int,
    dtype: torch.dtype,
) -> Quantizer:
    quantizer = QUANTIZERS[kind](dim, num_codebooks, codebook_size).to(dtype)
    return quantizer.fit(clustered(rows, dim))


def fitted(
    kind: str,
    dim: int = DIM,
    num_codebooks: int = NUM_CODEBOOKS,
    codebook_size: int = CODEBOOK_SIZE,
    rows: int = ROWS,
    dtype: torch.dtype = torch.float32,
) -> Quantizer:
    """A copy of the quantizer fitted to ``clustered(rows, dim)``; fitted only once."""
    sizes = dim, num_codebooks, codebook_size
    return copy.deepcopy(_fitted(kind, *sizes, rows, dtype))


def every_code(num_codebooks: int, codebook_size: int) -> Tensor:
    """All codes there are, (codebook_size ** num_codebooks, num_codebooks)."""
    choices = [torch.arange(codebook_size)] * num_codebooks
    return torch.cartesian_prod(*choices).view(-1, num_codebooks)


def assert_same_state(left: Quantizer, right: Quantizer) -> None:
    """Both have the same buffers, bit for bit."""
    ours, theirs = left.state_dict(), right.state_dict()
    assert ours.keys() == theirs.keys()
    assert len(ours) > 0
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name
        assert value.dtype == theirs[name].dtype, name


@pytest.fixture(params=list(QUANTIZERS))
def kind(request: pytest.FixtureRequest) -> str:
    """Every key of the registry in turn."""
    return str(request.param)


@pytest.fixture
def quantizer(kind: str) -> Quantizer:
    """A fitted quantizer of every kind, the test's own to change."""
    return fitted(kind)


@pytest.fixture
def precise(kind: str) -> Quantizer:
    """The same in double precision, for laws that hold to the last digits."""
    return fitted(kind, dtype=torch.float64)


@pytest.fixture
def x() -> Tensor:
    """The rows the quantizers were fitted to."""
    return clustered(ROWS)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """A single thread in torch, where threads of the test itself do the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
