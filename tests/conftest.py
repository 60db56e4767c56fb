"""Small seeded rows, and one fitted coder of every kind, made once."""

import copy
import functools
from collections.abc import Collection, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from gradsnap import compiled
from gradsnap.coders import CODERS, HASHERS, Coder, Hasher
from gradsnap.coders.quantizers import QUANTIZERS, Quantizer, product
from gradsnap.registry import options_of
from tests import no_network
from tests.platforms import BROWSER

no_network.install()

needs_numba = pytest.mark.skipif(not compiled.installed(), reason="needs numba")

ALL_FITS = product.FITS
product.FITS = 1  # one fit is enough for laws; several are tested on their own

DIM = 8
NUM_CODEBOOKS = 3
CODEBOOK_SIZE = 16
ROWS = 300

CODER_DIM = CODER_BITS = 12
"""Of coders of every kind: signs need as many bits, and no multiple of eight pads."""

QUICK = {"iterations": 4, "num_anchors": 40, "trees": 4, "projected_dim": 8}
"""Options that make a fit short, for those that have them."""


def gaussian(rows: int, dim: int = DIM, seed: int = 0) -> Tensor:
    """Rows (rows, dim) of the standard normal distribution."""
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def clustered(rows: int, dim: int = DIM, seed: int = 0, clusters: int = 12) -> Tensor:
    """Rows around centres that do not depend on the seed, so that draws are alike."""
    centres = 2 * gaussian(clusters, dim, seed=1000)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(clusters, (rows,), generator=generator)
    return centres[chosen] + 0.5 * torch.randn(rows, dim, generator=generator)


def classes(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of four classes, each of two far clusters, under directions of noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 4
    part = torch.randint(2, (rows,), generator=generator)
    x = torch.randn(rows, CODER_DIM, generator=generator)
    x[:, :4] *= 3  # the widest directions say nothing
    x[:, 4:] += 3 * gaussian(8, CODER_DIM - 4, seed=99)[2 * labels + part]
    return x, labels


def several(labels: Tensor) -> Tensor:
    """Two of five labels an item; neighbours share one."""
    places = torch.arange(5)
    return (places == labels[:, None]) | (places == labels[:, None] + 1)


def made_coder(
    kind: str, bits: int = CODER_BITS, dim: int = CODER_DIM, **changes: Any
) -> Coder:
    """An unfitted coder of so many bits, with few iterations where it has such."""
    known = options_of(CODERS[kind])
    quick: dict[str, Any] = {
        name: value for name, value in QUICK.items() if name in known
    }
    return CODERS[kind].of_bits(dim, bits, **(quick | changes))


@functools.cache
def _fitted_coder(kind: str) -> Coder:
    return made_coder(kind).fit(*classes(120))


def fitted_coder(kind: str) -> Coder:
    """A copy of ``made_coder(kind).fit(*classes(120))``, which is fitted only once."""
    return copy.deepcopy(_fitted_coder(kind))


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


def assert_same_state(left: Coder, right: Coder) -> None:
    """Both have the same buffers, bit for bit."""
    ours, theirs = left.state_dict(), right.state_dict()
    assert ours.keys() == theirs.keys()
    assert len(ours) > 0
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name
        assert value.dtype == theirs[name].dtype, name


def each_of(registry: Collection[str]) -> Any:
    """A fixture that is every key of a registry in turn."""

    @pytest.fixture(params=list(registry))
    def key(request: pytest.FixtureRequest) -> str:
        return str(request.param)

    return key


coder_kind, hasher_kind, kind = each_of(CODERS), each_of(HASHERS), each_of(QUANTIZERS)


@pytest.fixture
def coder(coder_kind: str) -> Coder:
    """A fitted coder of every kind, the test's own to change."""
    return fitted_coder(coder_kind)


@pytest.fixture
def hasher(hasher_kind: str) -> Hasher:
    """A fitted hasher of every kind, the test's own to change."""
    hasher = fitted_coder(hasher_kind)
    assert isinstance(hasher, Hasher)
    return hasher


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
def all_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many fits as other processes do, to be compared with them."""
    monkeypatch.setattr(product, "FITS", ALL_FITS)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """A single thread in torch, where threads of the test itself do the work."""
    yield from _threads(1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads in torch, whatever the machine has."""
    yield from _threads(2)


def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window, for pages; with the mark ``needs_browser``."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="pip install playwright"
    )
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


SLOW_KINDS = ("[aq]", "[cq]")
"""Their local search takes seconds where others take milliseconds."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long streams of the quantizers with a local search are for the slow tests."""
    for item in items:
        streams = item.path.name == "test_streaming.py"
        if streams and item.name.endswith(SLOW_KINDS):
            item.add_marker(pytest.mark.slow)
