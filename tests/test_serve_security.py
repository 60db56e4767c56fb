"""What a server refuses: hosts, sites, tokens, sizes, paths, and nonsense."""

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="install gradsnap[serve]")
pytest.importorskip("httpx", reason="pip install httpx")

import gradsnap as gs
from gradsnap.serve import ServeSettings, make_app
from gradsnap.serve.settings import read_token
from tests.conftest import DIM
from tests.served import InProcess, photo_index, vector_index

TOKEN = "correct-horse-battery-staple"
ITEM = {"index": "photos", "id": "b/1.png"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    home: Path = tmp_path_factory.mktemp("secure")
    made = {"photos": photo_index(home, 12)}
    vector_index(40).save(home / "vectors")
    made["vectors"] = home / "vectors"
    return made


@pytest.fixture(scope="module")
def client(folders) -> Iterator[InProcess]:
    settings = ServeSettings(
        engine="torch", upload_bytes=100_000, pixels=10_000, writable=True
    )
    with InProcess(make_app(folders, settings)) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(folders) -> Iterator[InProcess]:
    settings = ServeSettings(host="0.0.0.0", token=TOKEN, engine="torch")
    with InProcess(make_app(folders, settings), "photos.example:80") as made:
        yield made


def test_other_machines_need_a_token_or_a_word() -> None:
    with pytest.raises(gs.InputError, match="--token-file"):
        ServeSettings(host="0.0.0.0")
    assert ServeSettings(host="0.0.0.0", public=True).public
    assert ServeSettings(host="::1").is_local
    assert ServeSettings(host="127.0.0.5").is_local


def test_a_short_token_is_refused(tmp_path) -> None:
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(gs.InputError, match="5 letters"):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN


def test_nothing_of_an_index_is_told_without_the_token(guarded) -> None:
    for path in ("/indexes", "/items/b/1.png", "/thumbnails/b/1.png", "/metrics"):
        assert guarded.get(path).status_code == 401
    assert guarded.post("/search", json=ITEM).status_code == 401
    wrong = {"authorization": "Bearer correct-horse-battery-stapl"}
    assert guarded.post("/search", json=ITEM, headers=wrong).status_code == 401
    right = {"authorization": f"Bearer {TOKEN}"}
    assert guarded.post("/search", json=ITEM, headers=right).status_code == 200
    for path in ("/", "/health", "/ready", "/docs", "/page/main.js"):
        assert guarded.get(path).status_code == 200


def test_a_browser_gets_a_cookie_that_is_not_the_token(guarded) -> None:
    right = {"authorization": f"Bearer {TOKEN}"}
    assert guarded.post("/session", headers={}).status_code == 401
    given = guarded.post("/session", headers=right).headers["set-cookie"]
    assert TOKEN not in given
    assert {"HttpOnly", "SameSite=strict"} <= set(given.split("; "))
    cookie = {"cookie": given.split(";")[0]}
    assert guarded.get("/indexes", headers=cookie).status_code == 200
    forged = {"cookie": "gradsnap_session=00"}
    guarded.http.cookies.clear()
    assert guarded.get("/indexes", headers=forged).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "@@["])
def test_a_name_that_is_not_ours_is_refused(client, host) -> None:
    answer = client.post("/search", json=ITEM, headers={"host": host})
    assert answer.status_code in (400, 421)
    assert client.get("/", headers={"host": "localhost:1"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1"]
)
def test_other_sites_are_refused(client, origin) -> None:
    for path, body in (("/search", ITEM), ("/items", {"vector": [0.0] * DIM})):
        answer = client.post(path, json=body, headers={"origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    own = {"origin": "http://127.0.0.1:8000"}
    assert client.post("/search", json=ITEM, headers=own).status_code == 200


def test_every_response_allows_only_itself(client) -> None:
    for path in ("/", "/docs", "/indexes", "/nothing", "/thumbnails/b/1.png"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "http" not in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_too_much_is_refused(client) -> None:
    answer = client.post("/search", content=b"{" * 200_000)
    assert answer.status_code == 413
    out = io.BytesIO()
    Image.new("L", (200, 200)).save(out, "PNG")
    sent = {"content-type": "image/png"}
    wide = client.post("/search", content=out.getvalue(), headers=sent)
    assert wide.status_code == 413
    assert "200 × 200" in wide.json()["error"]


def test_a_request_that_takes_too_long_ends(folders) -> None:
    settings = ServeSettings(engine="torch", seconds=0.2)
    with InProcess(make_app(folders, settings)) as client:
        served = client.app.state.service.named("vectors")

        async def blocked() -> None:
            import time

            served.searching._thread.submit(time.sleep, 0.6)

        client.run(blocked())
        answer = client.post("/search", json={"index": "vectors", "id": 1})
        assert answer.status_code == 503
        assert "0.2 s" in answer.json()["error"]


@pytest.fixture
def leading_out(tmp_path) -> InProcess:
    """An index whose names lead out of its root: by dots, and by a link."""
    folder = photo_index(tmp_path, 8)
    outside = tmp_path / "secret.png"
    outside.write_bytes((tmp_path / "photos" / "b/1.png").read_bytes())
    (tmp_path / "photos" / "link.png").symlink_to(outside)
    index = gs.load_index(folder)
    vector = index.reconstruct(["b/1.png"]).repeat(3, 1)
    words = {"label": ["a"] * 3, "size": [0.0] * 3}
    index.add(vector, ["../secret.png", "link.png", "/etc/hostname"], words)
    index.save(folder)
    return InProcess(make_app({"photos": folder}, ServeSettings(engine="torch")))


def test_no_file_outside_of_the_root_is_served(leading_out) -> None:
    with leading_out as client:
        for name in ("..%2Fsecret.png", "link.png", "%2Fetc%2Fhostname"):
            assert client.get(f"/items/{name}").status_code == 200
            answer = client.get(f"/thumbnails/{name}")
            assert answer.status_code == 404, name
            assert "/" not in answer.json()["error"]
        for path in ("/page/..%2fapp.py", "/page/../app.py", "/page/%2e%2e%2fapp.py"):
            assert client.get(path).status_code == 404
        assert client.get("/thumbnails/b%2F1.png").status_code == 200
        assert client.get("/thumbnails/model.png").status_code == 404


SEEDS = [
    json.dumps({"id": "b/1.png", "k": 3}),
    json.dumps({"index": "vectors", "vector": [0.5] * DIM, "rerank": 3}),
    json.dumps({"id": "b/1.png", "where": "size > 3 and label in ('a')"}),
    json.dumps({"vectors": [[0.1] * DIM], "within": ["b/1.png"]}),
    json.dumps({"item": "b/1.png", "id": "b/2.png"}),
]
PARTS = [*'"{}[],:', "null", "1e999", "-1", "NaN", "\\u0000", "true"]
KINDS = [
    "application/json",
    "application/octet-stream",
    "image/png",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "",
    "text/plain",
]


def nonsense(seed: int) -> tuple[bytes, str]:
    """A body that was right once, with pieces cut, doubled and put in."""
    rng = random.Random(seed)
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randint(0, 8))
        text = text[:at] + rng.choice([*PARTS, "", text[at:end] * 2]) + text[end:]
    body = text.encode("utf-8", "replace")
    if rng.random() < 0.3:
        body = bytes(rng.randrange(256) for _ in range(rng.randrange(64)))
    return body, rng.choice(KINDS)


@pytest.mark.parametrize("path", ["/search", "/search/batch", "/explain", "/items"])
def test_nonsense_is_refused_and_never_fails(client, folders, path) -> None:
    home = str(folders["photos"].parent)
    for seed in range(60):
        body, kind = nonsense(seed)
        answer = client.post(path, content=body, headers={"content-type": kind})
        assert answer.status_code < 500, (body, kind, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error"}
            assert home not in answer.text
            assert "Traceback" not in answer.text
            assert gs.__version__ not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/items/%00",
        "/items/%ff%fe",
        "/thumbnails/%00?index=photos",
        "/thumbnails/b%2F1.png?size=9999",
        "/thumbnails/b%2F1.png?index=no",
        "/random?count=-1",
        "/random?count=9999999999999999999999",
        "/random?where=%00%27",
        "/indexes/no",
        "/items/99999999999999999999999?index=vectors",
        "/items/-1?index=vectors",
        "/items/1.5?index=vectors",
    ],
)
def test_odd_addresses_are_refused(client, path) -> None:
    assert 400 <= client.get(path).status_code < 500
