"""The API in process: searches equal the library's, refusals are sentences."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("fastapi", reason="install gradsnap[serve]")
pytest.importorskip("httpx", reason="pip install httpx")

import gradsnap as gs
from gradsnap.serve import ServeSettings, make_app
from tests.conftest import clustered
from tests.served import EVIL, InProcess, photo_index, picture, vector_index


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    home: Path = tmp_path_factory.mktemp("served")
    made = {"photos": photo_index(home)}
    for name, lists in (("vectors", False), ("lists", True)):
        vector_index(lists=lists).save(home / name)
        made[name] = home / name
    return made


@pytest.fixture(scope="module")
def client(folders) -> Iterator[InProcess]:
    with InProcess(make_app(folders, ServeSettings(engine="torch"))) as made:
        yield made


def found(answer) -> list[tuple[object, float]]:
    assert answer.status_code == 200, answer.text
    return [(one["id"], one["distance"]) for one in answer.json()["results"]]


def expected(result, row: int = 0) -> list[tuple[object, float]]:
    ids = result.ids if isinstance(result.ids, list) else result.ids.tolist()
    return list(zip(ids[row], result.distances[row].tolist(), strict=True))


@pytest.mark.parametrize("name", ["vectors", "lists"])
def test_a_vector_finds_what_the_library_finds(client, folders, name) -> None:
    index, query = gs.load_index(folders[name]), clustered(3, seed=5)
    for row in query:
        sent = {"index": name, "vector": row.tolist(), "k": 7}
        answer = client.post("/search", json=sent)
        assert found(answer) == expected(index.search(row[None], 7))
        whole = client.post(
            f"/search?index={name}&k=7",
            content=row.numpy().tobytes(),
            headers={"content-type": "application/octet-stream"},
        )
        assert found(whole) == found(answer)


def test_options_reach_the_index(client, folders) -> None:
    index, query = gs.load_index(folders["lists"]), clustered(1, seed=6)
    assert isinstance(index, gs.InvertedIndex)
    index.probes = 2
    condition = 'label = "cat" and year > 2010'
    want = index.search(query, 5, rerank=0, where=condition)
    sent = {"index": "lists", "vector": query[0].tolist(), "k": 5}
    sent |= {"probe": 2, "rerank": False, "where": condition}
    answer = client.post("/search", json=sent)
    assert found(answer) == expected(want)
    assert all(one["metadata"]["label"] == "cat" for one in answer.json()["results"])
    within = client.post(
        "/search", json={"index": "lists", "id": 3, "within": [3, 4, 5], "k": 9}
    )
    assert {one for one, _ in found(within)} <= {3, 4, 5}


def test_an_offset_goes_on_where_the_page_before_ended(client) -> None:
    whole = client.post("/search", json={"index": "vectors", "id": 4, "k": 30})
    parts = [
        client.post(
            "/search", json={"index": "vectors", "id": 4, "k": 10, "offset": start}
        )
        for start in (0, 10, 20)
    ]
    assert [one for part in parts for one in found(part)] == found(whole)


def test_floats_are_the_exact_ranking(client, folders) -> None:
    index, row = gs.load_index(folders["vectors"]), clustered(1, seed=7)
    answer = client.post(
        "/search",
        json={"index": "vectors", "vector": row[0].tolist(), "floats": True, "k": 6},
    )
    far = (clustered(200).half().float() - row).square().sum(dim=1)
    assert [one for one, _ in found(answer)] == far.argsort()[:6].tolist()
    assert len(index) == 200


@pytest.mark.parametrize("form", ["multipart", "bare"])
def test_a_picture_finds_itself(client, form) -> None:
    data = picture(3)
    if form == "multipart":
        answer = client.post("/search", files={"image": data}, data={"k": "5"})
    else:
        answer = client.post(
            "/search?k=5", content=data, headers={"content-type": "image/png"}
        )
    nearest = found(answer)
    assert len(nearest) == 5
    again = client.post("/search", json={"id": nearest[0][0], "k": 5})
    assert "b/3.png" in {one for one, _ in nearest}
    assert nearest[0][0] in {one for one, _ in found(again)}
    assert set(answer.json()["milliseconds"]) == {"search", "embedding", "whole"}


def test_a_batch_equals_its_queries(client, folders) -> None:
    queries = clustered(20, seed=8)
    index = gs.load_index(folders["vectors"])
    answer = client.post(
        "/search/batch?index=vectors&k=4",
        content=queries.numpy().tobytes(),
        headers={"content-type": "application/octet-stream"},
    )
    want = index.search(queries, 4)
    rows = answer.json()["results"]
    assert [[one["id"] for one in row] for row in rows] == want.ids.tolist()
    ids = client.post("/search/batch", json={"index": "vectors", "ids": [1, 2]})
    assert [row[0]["id"] for row in ids.json()["results"]] == [
        one[0] for one in index.search_items([1, 2], 10).ids.tolist()
    ]


def test_shares_of_codewords_add_up_to_the_distance(client) -> None:
    for name in ("vectors", "lists"):
        row = clustered(1, seed=9)[0].tolist()
        sent = {"index": name, "vector": row, "k": 3, "rerank": False}
        for item, far in found(client.post("/search", json=sent)):
            asked = {"index": name, "item": item, "vector": row}
            said = client.post("/explain", json=asked).json()
            assert sum(said["parts"]) + said["rest"] == pytest.approx(far, abs=1e-4)
            assert len(said["code"]) == len(said["parts"]) == 3


def test_what_is_known_of_an_item(client) -> None:
    known = client.get(f"/items/{EVIL.replace('/', '%2F')}").json()
    assert known["id"] == EVIL
    assert known["metadata"] == {"label": "a", "size": 0.0}
    shown = client.get(known["thumbnail"])
    assert shown.headers["content-type"] == "image/png"
    tag = {"if-none-match": shown.headers["etag"]}
    assert client.get(known["thumbnail"], headers=tag).status_code == 304
    assert client.get("/items/nothing").status_code == 404
    assert client.get("/items/5?index=vectors").json()["metadata"]["label"] == "cat"
    assert client.get("/thumbnails/5?index=vectors").status_code == 404


def test_a_random_item_fulfils_its_condition(client) -> None:
    for _ in range(5):
        drawn = client.get(
            "/random", params={"index": "vectors", "where": "year = 2003"}
        )
        assert drawn.json()["id"] % 20 == 3
        assert client.get("/random").status_code == 200
    empty = client.get("/random", params={"index": "vectors", "where": "year = 1"})
    assert empty.status_code == 404


def test_what_the_index_is(client) -> None:
    listed = client.get("/indexes").json()["indexes"]
    assert [one["name"] for one in listed] == ["photos", "vectors", "lists"]
    about = client.get("/indexes/photos").json()
    assert about["items"] == 40
    assert [one["items"] for one in about["growth"]] == [20, 20]
    assert sum(about["codewords"][0]["counts"]) == 40
    assert 0 < about["relative_error"] < 1
    assert about["model"]["network"] == "small"
    facets = client.get("/indexes/vectors/facets").json()["facets"]
    assert facets[0]["values"] == [
        {"value": "cat", "count": 133},
        {"value": "dog", "count": 67},
    ]
    assert (facets[1]["low"], facets[1]["high"]) == (2000, 2019)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/search", {}, "one of vector, id and image"),
        ("/search", {"id": "b/3.png", "vector": [1.0]}, "one of"),
        ("/search", {"id": "b/3.png", "k": 0}, "k"),
        ("/search", {"id": "b/3.png", "k": 5000}, "at most 1000"),
        ("/search", {"id": "b/3.png", "probe": 3}, "exhaustive"),
        ("/search", {"id": "b/3.png", "where": "colour = 1"}, "label, size"),
        ("/search", {"id": "b/3.png", "more": 1}, "more"),
        ("/search", {"vector": [1.0]}, "8 numbers"),
        ("/search", {"vector": [1e300] * 8}, "finite"),
        ("/search", {"image": "????"}, "base64"),
        ("/search", {"image": "aGVsbG8="}, "no picture"),
        ("/search/batch", {}, "vectors and ids"),
        ("/search", {"id": "b/3.png", "index": "no"}, "photos, vectors, lists"),
        ("/search", {"id": "nothing"}, "'nothing'"),
        ("/items", {"vector": [0.0] * 8}, "--writable"),
    ],
)
def test_refusals_say_what_is_wrong(client, folders, path, body, says) -> None:
    answer = client.post(path, json=body)
    assert 400 <= answer.status_code < 500
    assert says in answer.json()["error"]
    assert str(folders["photos"].parent) not in answer.text


def test_what_prometheus_reads(client) -> None:
    text = client.get("/metrics").text
    assert 'gradsnap_items{index="photos"} 40.0' in text
    assert 'gradsnap_requests_total{route="/search",status="200"}' in text
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"ready": True}


def test_the_api_describes_itself(client) -> None:
    told = client.get("/openapi.json").json()
    assert {"/search", "/search/batch", "/items", "/metrics"} <= set(told["paths"])
    body = told["paths"]["/search"]["post"]["requestBody"]["content"]
    assert body["application/json"]["examples"]["item"]["value"]["k"] == 10
    assert "cdn" not in client.get("/docs").text


def test_items_are_added_and_removed_where_the_server_may_write(tmp_path) -> None:
    vector_index(50).save(tmp_path / "v")
    app = make_app({"v": tmp_path / "v"}, ServeSettings(writable=True, engine="torch"))
    with InProcess(app) as client:
        row = [9.0] * 8
        sent = {"vector": row, "metadata": {"label": "new", "year": 1999}}
        made = client.post("/items", json=sent)
        assert made.status_code == 201
        assert made.json()["id"] == 50
        asked = {"vector": row, "k": 1, "rerank": 50}
        assert found(client.post("/search", json=asked))[0][0] == 50
        assert client.get("/items/50").json()["metadata"]["label"] == "new"
        assert client.post("/items", json=sent | {"id": 50}).status_code == 409
        assert client.delete("/items/50").status_code == 200
        assert client.delete("/items/50").status_code == 404
        assert found(client.post("/search", json=asked))[0][0] != 50
    assert len(gs.load_index(tmp_path / "v")) == 50


def test_json_of_results_has_no_nan(client) -> None:
    answer = client.post("/search", json={"index": "vectors", "id": 1, "k": 500})
    assert len(found(answer)) == 200
    json.loads(answer.text, parse_constant=lambda word: pytest.fail(word))
    assert torch.isfinite(torch.tensor([far for _, far in found(answer)])).all()
