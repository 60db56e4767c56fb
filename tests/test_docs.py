"""What the documentation repeats is what the code says."""

from pathlib import Path

import pytest

from gradsnap.training import make_config, to_toml

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="installed without the documentation")
def test_the_settings_page_lists_the_settings() -> None:
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    shown = page.split("```toml\n")[1].split("```")[0]
    assert shown.strip() == to_toml(make_config({})).strip(), (
        "write it anew: gradsnap train --show-config"
    )
