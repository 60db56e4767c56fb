"""What the documentation repeats is what the code says, and its code runs."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import pytest

from gradsnap.training import make_config, to_toml

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = ("changing.md", "own.md", "faiss.md", "export.md", "data.md", "evaluation.md")
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob("api/*.md"))
EXTRAS = {
    "api/export.md": ("lance", "onnxscript"),
    "export.md": ("lance", "onnxscript"),
    "api/serve.md": ("fastapi",),
}

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="installed without docs")


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def code_of(name: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", text_of(name), re.S))


@pytest.mark.slow  # a dozen seconds; .ci/run runs them
@pytest.mark.parametrize("name", [*GUIDES, *PAGES])
def test_every_python_block_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in EXTRAS.get(name, ()):
        pytest.importorskip(extra, reason="an extra")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    code = code_of(name)
    assert code
    exec(compile(code, name, "exec"), {"__name__": "shown"})


def shown_packages(name: str) -> list[ModuleType]:
    """The packages whose names a page lists."""
    found = re.findall(r"^::: (\S+)$", text_of(name), re.M)
    return [importlib.import_module(module) for module in found]


def has_example(value: Any) -> bool:
    """Whether a docstring of a name, or of a method of its, has an example."""
    own = [value]
    if inspect.isclass(value):
        own += [one for one in vars(value).values() if callable(one)]
    return any(">>>" in (inspect.getdoc(one) or "") for one in own)


@pytest.mark.parametrize("name", [page for page in PAGES if page != "api/index.md"])
def test_every_public_name_has_an_example_that_is_run(name: str) -> None:
    code = code_of(name)
    for package in shown_packages(name):
        for public in package.__all__:
            value = getattr(package, public)
            assert inspect.getdoc(value) or get_origin(value), public
            used = re.search(rf"\b{public}\b", code)
            assert used or has_example(value), f"{package.__name__}.{public}"


def test_every_public_name_is_on_a_page() -> None:
    import gradsnap

    shown = {
        public
        for page in PAGES
        for package in shown_packages(page)
        for public in package.__all__
    }
    modules = {
        name for name in gradsnap.__all__ if inspect.ismodule(getattr(gradsnap, name))
    }
    assert set(gradsnap.__all__) - modules <= shown


def test_the_settings_page_lists_the_settings() -> None:
    shown = text_of("settings.md").split("```toml\n")[1].split("```")[0]
    assert shown.strip() == to_toml(make_config({})).strip(), (
        "write it anew: gradsnap train --show-config"
    )


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_lead_to_files(name: str) -> None:
    """Those of the pages are checked by ``mkdocs build --strict``, anchors too."""
    root = DOCS.parent
    text = (root / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)|src=\"([^\"]+)\"", text)
    for link in map("".join, links):
        assert link.startswith("http") or (root / link).exists(), link
