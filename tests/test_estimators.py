"""Coders as scikit-learn estimators: its own checks, and equality with the coder."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.errors import InputError
from gradsnap.estimators import HasherTransformer, QuantizerTransformer

ROWS = np.random.default_rng(0).normal(size=(200, 8))


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        QuantizerTransformer(bits=4, codebook_size=16),
        HasherTransformer("lsh", bits=8),
    ]
)
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    check(estimator)


def test_codes_are_those_of_the_coder() -> None:
    found = QuantizerTransformer("pq", bits=8, codebook_size=16, seed=3).fit(ROWS)
    rows = torch.from_numpy(ROWS.astype(np.float32))
    own = ProductQuantizer(8, 2, 16, seed=3).fit(rows)
    assert np.array_equal(found.transform(ROWS), own.encode(rows).numpy())
    back = found.inverse_transform(found.transform(ROWS))
    assert np.allclose(back, own.decode(own.encode(rows)).numpy())


def test_labels_of_any_kind_reach_a_supervised_hasher() -> None:
    names = np.where(ROWS[:, 0] > 0, "cat", "dog")
    hasher = HasherTransformer("ksh", bits=8)
    codes = hasher.fit(ROWS, names).transform(ROWS)
    assert codes.shape == (200, 1)
    with pytest.raises(InputError, match=r"needs labels"):
        clone(hasher).fit(ROWS)


def test_an_unknown_kind_names_the_known() -> None:
    with pytest.raises(InputError, match=r"'xx'.*pq"):
        QuantizerTransformer("xx").fit(ROWS)
