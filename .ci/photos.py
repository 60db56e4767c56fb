"""A dozen small photos in two classes, made on the spot: photos.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

COLORS = {"red": (200, 40, 40), "blue": (40, 40, 200)}

numbers = np.random.default_rng(0)
for name, color in COLORS.items():
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True)
    for number in range(6):
        pixels = numbers.normal(color, 20, (48, 64, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
