"""How large codebooks are where nobody says, and that none is fitted twice."""

import itertools

import numpy as np
import pytest

from gradsnap.coders.packing import bits_of
from gradsnap.coders.quantizers import ResidualQuantizer
from gradsnap.coders.quantizers.summed import MOST_CODEWORDS
from gradsnap.training import make_config, run_training
from gradsnap.training.defaults import settled
from gradsnap.training.layout import LARGEST, MOST_GIVEN_UP, large_codebooks
from tests.commands import said

GRID = list(
    itertools.product(
        (16, 24, 32, 48, 64, 128),
        (1_000, 18_000, 10**6),
        (64, 200, 784, 4096),
        (32, 128),
    )
)


@pytest.mark.parametrize(("bits", "rows", "length", "dim"), GRID)
def test_large_codebooks_stay_within_what_was_asked(bits, rows, length, dim) -> None:
    found = large_codebooks(bits, rows, length, dim)
    books, rest = divmod(found.bits, bits_of(found.codebook_size))
    assert rest == 0
    assert books >= 2
    assert 256 <= found.codebook_size <= LARGEST
    assert books * found.codebook_size <= MOST_CODEWORDS
    assert (1 - MOST_GIVEN_UP) * bits <= found.bits <= bits
    assert (1 - MOST_GIVEN_UP) * dim <= found.dim <= dim
    if found.codebook_size > 256:
        usual = bits // 8 * 256 * length
        assert books * found.codebook_size * found.dim <= usual
        assert rows >= 3 * found.codebook_size


def test_more_rows_and_longer_vectors_never_make_codebooks_smaller() -> None:
    by_rows = [large_codebooks(64, rows, 784, 128)[1] for rows in (900, 4000, 20_000)]
    by_length = [large_codebooks(64, 30_000, n, 128)[1] for n in (128, 256, 512, 2048)]
    assert by_rows == sorted(by_rows) != [by_rows[0]] * 3
    assert by_length == sorted(by_length) != [by_length[0]] * 4


def test_rows_that_do_not_all_learn_have_smaller_codebooks() -> None:
    known, sampled = (large_codebooks(32, rows, 784, 128) for rows in (32_768, 32_769))
    assert known.codebook_size == 4096
    assert sampled.codebook_size == 1024


@pytest.fixture
def long_vectors(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "long.npy"
    centres = 3 * rng.standard_normal((40, 256))
    rows = centres[rng.integers(40, size=2000)] + rng.standard_normal((2000, 256))
    np.save(path, rows.astype(np.float32))
    return path


def test_vectors_without_labels_have_large_codebooks(long_vectors) -> None:
    words = [f"data.source={long_vectors}", "coder.bits=32"]
    config = settled(make_config({}, words)).config
    assert (config.coder.bits, config.coder.codebook_size) == (27, 512)


def test_the_command_says_what_codes_are_made_of(long_vectors, tmp_path) -> None:
    words = ["train", long_vectors, "--bits", 32, "--coder", "rvq", "run.steps=2"]
    told = " ".join(said(*words, "--out", tmp_path / "model").split())
    assert "rvq, 3 x 512 codewords: 27 bits, of at most 32" in told
    assert "recall@100 of codes" in told
    assert "gradsnap tune --bits 32" in told


@pytest.mark.parametrize("own", ["coder.codebook_size=256", "coder.kind=cq"])
def test_a_named_size_or_another_coder_keeps_its_layout(long_vectors, own) -> None:
    words = [f"data.source={long_vectors}", "coder.bits=32", own]
    config = settled(make_config({}, words)).config
    assert (config.coder.bits, config.coder.codebook_size) == (32, 256)


def test_no_part_is_fitted_twice(long_vectors, tmp_path, monkeypatch) -> None:
    """The training part is fitted before the first step, and nothing moves it since."""
    counts, fit = [], ResidualQuantizer._learn

    def counted(own, x):
        counts.append(len(x))
        fit(own, x)

    monkeypatch.setattr(ResidualQuantizer, "_learn", counted)
    words = [f"data.source={long_vectors}", "coder.bits=16", "coder.kind=rvq"]
    small = ["coder.codebook_size=16", "run.steps=2"]
    model = run_training(make_config({}, [*words, *small]), tmp_path / "model")
    assert model is not None
    card = model.card["card"]
    assert sorted(counts) == sorted([card["training"], card["database"]])
