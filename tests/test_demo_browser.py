"""The report in a real browser: laptop and phone, light and dark."""

from pathlib import Path

import pytest

from gradsnap.demo import DemoSettings, run_demo
from gradsnap.demo.settings import TRIALS
from tests.platforms import needs_browser

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    out: Path = tmp_path_factory.mktemp("report")
    trials = {layer: some[:1] for layer, some in TRIALS.items()}
    run_demo(out, DemoSettings(seeds=1, steps=16, trials=trials, lengths=(4, 8)))
    return out / "index.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_fits_and_says_nothing(browser, report, width, scheme) -> None:
    page = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url.split(":")[0]))
    page.goto(report.as_uri())
    assert said == []
    assert set(asked) <= {"file", "data"}
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(16, 19, 23)") == (scheme == "dark")
    broken = "[...document.images].filter(i => !i.naturalWidth).length"
    assert page.evaluate(broken) == 0
    page.close()
