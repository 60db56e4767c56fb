"""Coders as scikit-learn estimators: numpy in, numpy out, in pipelines and searches.

Everywhere else coders are ``nn.Module``s. An estimator holds one as ``coder_``, ready
for an index; it is built anew by each ``fit``.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from gradsnap.coders import HASHERS, QUANTIZERS, Coder, Quantizer
from gradsnap.coders.quantizers.quantizer import size_of_codebooks
from gradsnap.errors import InputError
from gradsnap.registry import chosen

FLOATS = ("float32", "float64")


class _Estimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What both families share: checks by scikit-learn, codes by the coder."""

    coder_: Coder
    """The fitted coder."""
    n_features_in_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns from X (n, dim); labels y (n,) where the coder needs them."""
        rows = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        coder = self._unfitted(*rows.shape)
        labels = None if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
        if coder.supervised and labels is None:
            raise InputError(f"the coder {self.kind!r} needs labels: fit(X, y)")
        given = None if labels is None else torch.from_numpy(labels.reshape(-1))
        coder.fit(torch.from_numpy(rows.astype(np.float32)), given)
        self.coder_, self._n_features_out = coder, coder.num_codebooks
        return self

    def transform(self, X: Any) -> NDArray[np.integer[Any]]:
        """Codes (n, num_codebooks) of X (n, dim): small integers."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=FLOATS, reset=False).astype(np.float32)
        found: NDArray[np.integer[Any]]
        found = self.coder_.encode(torch.from_numpy(rows)).numpy()
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are integers
        return tags

    @abstractmethod
    def _unfitted(self, rows: int, dim: int) -> Coder:
        """The coder for so many rows of a length."""


class QuantizerTransformer(_Estimator):
    """A quantizer: vectors to codes, and codes back to vectors.

    Args:
        kind: a name of ``gradsnap.coders.QUANTIZERS``.
        bits: length of a code.
        codebook_size: codewords a codebook; None: as many as bits and rows allow.
        seed: of everything random.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> pixels, _ = load_digits(return_X_y=True)
        >>> coded = make_pipeline(StandardScaler(), QuantizerTransformer(bits=16))
        >>> coded.fit_transform(pixels).shape
        (1797, 2)
        >>> coded.inverse_transform(coded.transform(pixels)).shape
        (1797, 64)
    """

    def __init__(
        self,
        kind: str = "pq",
        bits: int = 8,
        codebook_size: int | None = None,
        seed: int = 0,
    ) -> None:
        self.kind = kind
        self.bits = bits
        self.codebook_size = codebook_size
        self.seed = seed

    coder_: Quantizer

    def inverse_transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Reconstructions (n, dim) of codes X (n, num_codebooks)."""
        check_is_fitted(self)
        found: NDArray[np.floating[Any]]
        found = self.coder_.decode(torch.as_tensor(np.asarray(X)).long()).numpy()
        return found

    def _unfitted(self, rows: int, dim: int) -> Coder:
        size = self.codebook_size or size_of_codebooks(self.bits, rows)
        made = chosen(QUANTIZERS, self.kind, "quantizer")
        return made.of_bits(dim, self.bits, size, seed=self.seed)


class HasherTransformer(_Estimator):
    """A hasher: vectors to bits, packed into bytes.

    Args:
        kind: a name of ``gradsnap.coders.HASHERS`` that takes vectors of any length.
        bits: length of a hash.
        seed: of everything random.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> pixels, labels = load_digits(return_X_y=True)
        >>> HasherTransformer("itq", bits=16).fit_transform(pixels).shape
        (1797, 2)
    """

    def __init__(self, kind: str = "lsh", bits: int = 8, seed: int = 0) -> None:
        self.kind = kind
        self.bits = bits
        self.seed = seed

    def _unfitted(self, rows: int, dim: int) -> Coder:
        made = chosen(HASHERS, self.kind, "hasher")
        return made.of_bits(dim, self.bits, seed=self.seed)


__all__ = ["HasherTransformer", "QuantizerTransformer"]
