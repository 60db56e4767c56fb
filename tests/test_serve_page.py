"""The page in a real browser: drop, click, filter, back, dark, phone, contrast."""

import base64
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="install gradsnap[serve]")

from gradsnap.serve import ServeSettings, make_app
from tests.platforms import needs_browser
from tests.served import EVIL, photo_index, picture, vector_index

pytestmark = [pytest.mark.slow, needs_browser]

CHECKS = (Path(__file__).parent / "page_checks.js").read_text("utf-8")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    home: Path = tmp_path_factory.mktemp("page")
    made = {"photos": photo_index(home, 80), "vectors": home / "vectors"}
    vector_index(90, lists=True).save(made["vectors"])
    return made


@pytest.fixture(scope="module")
def server(folders) -> Iterator[str]:
    with listening(make_app(folders, ServeSettings(engine="torch"))) as url:
        yield url


@contextlib.contextmanager
def listening(app: Any) -> Iterator[str]:
    """The address of a server in a thread."""
    import asyncio

    import uvicorn

    made = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(made.serve()))
    thread.start()
    while not made.started:
        pass
    yield f"http://127.0.0.1:{made.servers[0].sockets[0].getsockname()[1]}"
    made.should_exit = True
    thread.join()


@pytest.fixture(params=[(1600, "light"), (390, "dark")], ids=["wide", "phone"])
def page(browser, server, request) -> Iterator[Any]:
    """A page that must neither complain nor ask another host."""
    width, scheme = request.param
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, base_url=server)
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    asked: set[str] = set()
    opened.on("request", lambda sent: asked.add(sent.url.split("/")[2]))
    yield opened
    assert [one for one in said if "status of 422" not in one] == []
    assert asked == {server.split("/")[2]}
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def faces(page) -> list[str]:
    page.wait_for_selector("#results .face")
    return list(
        page.eval_on_selector_all(
            "#results .face", "all => all.map(one => one.dataset.id)"
        )
    )


def send(page, how: str, data: bytes) -> None:
    page.evaluate(CHECKS)
    text = base64.b64encode(data).decode()
    page.evaluate(f"text => checks.{how}(text)", text)


def test_drop_click_and_back(page) -> None:
    page.goto("/")
    page.wait_for_selector("text=Start anywhere")
    send(page, "drop", picture(5))
    page.wait_for_selector("text=nearest of 80")
    page.wait_for_selector("#stage canvas")
    assert "image=" in page.url
    assert "embedding" in page.text_content("#status")
    first = faces(page)[:10]
    assert "b/5.png" in first
    page.click("#results .card:nth-child(2) .face")
    page.wait_for_url("**id=*")
    page.wait_for_selector("#stage img")
    assert page.text_content("#caption") == first[1]
    page.wait_for_selector("text=precision among the first")
    page.go_back()
    page.wait_for_selector("#stage canvas")
    page.wait_for_selector("text=embedding >> visible=true", state="attached")
    assert faces(page)[:10] == first
    page.reload()
    page.wait_for_selector("#stage canvas")
    assert faces(page)[:10] == first


def test_filters_and_k(page) -> None:
    page.goto("/?id=b%2F5.png")
    faces(page)
    if page.viewport_size["width"] < 500:
        page.click("#filters > summary")
        page.click("#controls > summary")
    page.click(".pill:has-text('a')")
    page.wait_for_url("**is.label=a*")
    page.wait_for_selector("text=nearest of 80")
    every = "all => all.every(one => one.textContent === '≠ a')"
    page.wait_for_function("!document.body.hasAttribute('aria-busy')")
    page.wait_for_selector("text=0.00 precision")
    assert page.eval_on_selector_all("#results .label", every)
    page.click("#clear")
    page.wait_for_function("!location.search.includes('is.label')")
    page.fill("#k", "7")
    page.wait_for_url("**k=7*")
    page.wait_for_selector("text=precision among the first 7")
    page.fill("#where", "nothing = 3")
    page.press("#where", "Enter")
    page.wait_for_selector("text=there is no column 'nothing'")


def test_the_grid_goes_on(page) -> None:
    page.goto("/?id=b%2F5.png")
    faces(page)
    for _ in range(30):
        page.mouse.wheel(0, 4000)
        page.wait_for_timeout(150)
        if len(faces(page)) == 80:
            break
    found = faces(page)
    assert len(found) == len(set(found)) == 80


def test_a_name_that_is_html_is_text(page) -> None:
    from urllib.parse import quote

    page.goto(f"/?id={quote(EVIL, safe='')}")
    page.wait_for_selector("text=nearest of 80")
    assert page.text_content("#caption") == EVIL
    assert page.query_selector("#caption img") is None
    assert page.query_selector("img[src='x']") is None


def test_keys_and_what_the_code_says(page) -> None:
    page.goto("/?id=b%2F5.png")
    faces(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    second = page.evaluate("document.activeElement.dataset.id")
    assert second == faces(page)[1]
    page.keyboard.press("i")
    page.wait_for_selector("#details .shares")
    assert page.text_content("#details h2") == second
    assert len(page.query_selector_all("#details .numbers li")) == 4
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    shown = "id => document.querySelector('#caption').textContent === id"
    page.wait_for_function(shown, arg=second)


def test_codes_beside_floats(page) -> None:
    page.goto("/?id=b%2F5.png&floats=1&k=10")
    page.wait_for_selector("text=of 10 in both rows")
    rows = page.query_selector_all(".row")
    names = [
        [one.get_attribute("data-id") for one in row.query_selector_all(".face")]
        for row in rows
    ]
    assert [len(row) for row in names] == [10, 10]
    alone = len(page.query_selector_all(".alone"))
    assert alone == len(set(names[0]) ^ set(names[1]))


def test_lists_and_the_tab_with_the_index(page) -> None:
    page.goto("/?index=vectors&id=3&probe=2")
    page.wait_for_selector("text=nearest of 90")
    if page.viewport_size["width"] < 500:
        page.click("#controls > summary")
    page.check("input[name=mode] >> nth=0")
    page.wait_for_url("**probe=all*")
    page.wait_for_selector("text=all 8 lists: exact")
    page.click("#tab-index")
    page.wait_for_selector("text=Use of codewords")
    assert len(page.query_selector_all(".books .chart")) == 3
    page.wait_for_selector("text=Growth by save")
    page.go_back()
    page.wait_for_selector("text=nearest of 90")


@pytest.mark.parametrize("path", ["/?id=b%2F5.png", "/?tab=index", "/docs", "/"])
def test_labels_alternatives_and_contrast(page, path) -> None:
    page.goto(path)
    page.wait_for_load_state("networkidle")
    page.evaluate(CHECKS)
    assert page.evaluate("checks.unlabelled()") == []
    assert page.evaluate("checks.broken()") == 0
    assert page.evaluate("checks.faint()") == []
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 19, 21)") == dark


def test_random_and_paste(page) -> None:
    page.goto("/")
    faces(page)
    page.keyboard.press("r")
    page.wait_for_url("**id=*")
    page.wait_for_selector("text=nearest of 80")
    send(page, "paste", picture(9))
    page.wait_for_url("**image=*")
    page.wait_for_selector("#stage canvas")


def test_a_token_is_asked_for_once(browser, folders) -> None:
    token = "a-token-of-some-letters"
    with listening(
        make_app(folders, ServeSettings(token=token, engine="torch"))
    ) as url:
        page = browser.new_page()
        page.goto(f"{url}/?id=b%2F5.png")
        page.wait_for_selector("#login[open]")
        page.fill("#token", "not-the-token-at-all")
        page.click("#login-go")
        page.wait_for_selector("text=This is not the token.")
        page.fill("#token", token)
        page.click("#login-go")
        faces(page)
        page.reload()
        faces(page)
        page.wait_for_load_state("networkidle")
        shown = "[...document.images].every(one => !one.complete || one.naturalWidth)"
        assert page.evaluate(shown)
        page.close()
