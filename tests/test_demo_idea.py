"""The picture of the idea shows what the layer does, and is the one in the docs."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from gradsnap.reports.idea import EMBEDDING, GRADIENT, drawing, idea

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "idea.svg"


def test_the_step_nears_the_chosen_codeword_and_descends() -> None:
    found = idea()
    y, g = torch.tensor(EMBEDDING), torch.tensor(GRADIENT)
    assert (found.snapped @ g) > 0
    asked, taken = y - g - found.chosen, y - found.snapped - found.chosen
    assert taken.norm() < asked.norm() / 2


def test_the_picture_is_small_and_well_formed() -> None:
    drawn = drawing(idea())
    assert len(drawn) < 60_000
    root = ElementTree.fromstring(drawn)
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert "prefers-color-scheme:dark" in drawn


@pytest.mark.skipif(not PICTURE.is_file(), reason="installed without the documentation")
def test_the_docs_have_this_picture() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawing(idea()), (
        "draw it anew: python -m gradsnap.reports.idea docs/pictures/idea.svg"
    )
