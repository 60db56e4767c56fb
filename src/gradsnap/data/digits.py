"""The digits that come inside scikit-learn: 1,797 images of 8 × 8, always there."""

import os

import numpy as np
import torch

from gradsnap.data.dataset import Dataset
from gradsnap.data.images import ImageOptions, StoredImages
from gradsnap.strings import PackedStrings

BRIGHTEST = 16
"""The digits are stored in 0 to 16."""


def open_digits(
    root: str | os.PathLike[str] | None = None, options: ImageOptions | None = None
) -> Dataset:
    """Scikit-learn's digits, as grey images uint8 (1, 8, 8); ``root`` is not needed.

    Example:
        >>> digits = open_digits()
        >>> len(digits), digits.item_shape, digits.labels[:3]
        (1797, (1, 8, 8), tensor([0, 1, 2]))
    """
    from sklearn.datasets import load_digits  # slow, and worker processes need it not

    bunch = load_digits()
    pixels = (bunch.images * (255 / BRIGHTEST)).round().astype(np.uint8)  # (n, 8, 8)
    return Dataset(
        name="digits",
        items=StoredImages(
            torch.from_numpy(pixels)[:, None], options or ImageOptions()
        ),
        names=PackedStrings.of(f"digits/{row}" for row in range(len(pixels))),
        labels=torch.from_numpy(bunch.target.astype(np.int64)),
        classes=tuple("0123456789"),
    )
