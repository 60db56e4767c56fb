"""A writer saves while a server reads; and the client, which is shaped as an index."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi", reason="install gradsnap[serve]")
pytest.importorskip("httpx", reason="pip install httpx")

import gradsnap as gs
from gradsnap.index import folder_writing
from gradsnap.serve import ServeSettings, make_app
from gradsnap.serve.client import ServerError
from gradsnap.serve.opened import OpenedIndex
from gradsnap.serve.places import FolderPlace
from gradsnap.serve.refusals import Refusal
from gradsnap.serve.writing import Writer
from tests.conftest import DIM, clustered, fitted
from tests.served import InProcess, vector_index


def appended(folder: Path, rows: int, seed: int) -> None:
    index = gs.load_index(folder)
    words = {"label": ["new"] * rows, "year": [1999] * rows}
    index.add(clustered(rows, seed=seed), metadata=words).save(folder)


def test_a_saved_version_is_opened_and_the_old_one_stays_readable(tmp_path) -> None:
    vector_index(60).save(tmp_path / "v")
    opened = OpenedIndex("v", FolderPlace(str(tmp_path / "v")), ServeSettings())
    before = opened.version
    assert not opened.refresh()
    appended(tmp_path / "v", 10, 3)
    assert opened.refresh()
    assert (len(before.index), len(opened.version.index)) == (60, 70)
    assert opened.version.generation == before.generation + 1
    gs.load_index(tmp_path / "v").compact().save(tmp_path / "v")  # old files go
    query = clustered(2, seed=4)
    assert before.index.search(query, 5).ids.shape == (2, 5)


def test_a_damaged_folder_leaves_the_version_that_is_served(tmp_path) -> None:
    vector_index(60).save(tmp_path / "v")
    opened = OpenedIndex("v", FolderPlace(str(tmp_path / "v")), ServeSettings())
    before = opened.version
    (tmp_path / "v" / "manifest.json").write_text("{")
    assert not opened.refresh()
    assert opened.version is before


def test_no_request_is_dropped_while_a_writer_saves(tmp_path) -> None:
    """Every answer is right for the version it names."""
    folder = tmp_path / "v"
    vector_index(60).save(folder)
    query = clustered(1, seed=5)
    expected = {1: gs.load_index(folder).search(query, 5)}
    settings = ServeSettings(engine="torch", reopen_seconds=0.01)
    answers: list[dict[str, Any]] = []
    with InProcess(make_app({"v": folder}, settings)) as client:
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                sent = {"vector": query[0].tolist(), "k": 5}
                answer = client.post("/search", json=sent)
                assert answer.status_code == 200
                answers.append(answer.json())

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        for save in range(2, 6):
            appended(folder, 20, save)
            expected[save] = gs.load_index(folder).search(query, 5)
        while answers[-1]["version"] < 5:
            pass
        done.set()
        for thread in asking:
            thread.join()
    assert {answer["version"] for answer in answers} >= {1, 5}
    for answer in answers:
        want = expected[answer["version"]]
        assert [one["id"] for one in answer["results"]] == want.ids[0].tolist()
        far = [one["distance"] for one in answer["results"]]
        assert far == want.distances[0].tolist()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a socket, in a thread."""
    import asyncio

    import uvicorn

    home = tmp_path_factory.mktemp("client")
    vector_index(80, lists=True).save(home / "v")
    settings = ServeSettings(engine="torch", token="a-token-of-letters", writable=True)
    config = uvicorn.Config(
        make_app({"v": home / "v"}, settings), port=0, log_level="error"
    )
    made = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(made.serve()))
    thread.start()
    while not made.started:
        pass
    port = made.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", home / "v"
    made.should_exit = True
    thread.join()


def test_the_client_has_the_shape_of_an_index(server) -> None:
    url, folder = server
    index = gs.load_index(folder)
    there = gs.connect(url, token="a-token-of-letters")
    queries = clustered(5, seed=6)
    for options in ({}, {"rerank": 0}, {"where": 'label = "cat"'}, {"within": [3, 4]}):
        ours = index.search(queries, 6, **options)
        theirs = there.search(queries, 6, **options)
        assert torch.equal(ours.ids, theirs.ids)
        assert torch.equal(ours.distances, theirs.distances)
    items = there.search_items([1, 2], 4)
    assert torch.equal(items.ids, index.search_items([1, 2], 4).ids)
    assert there.metadata([5]) == index.metadata([5])
    assert there.about()["items"] == len(there) == len(index)
    made = there.add(torch.full((DIM,), 7.0), metadata={"label": "far", "year": 1})
    assert len(there) == len(index) + 1
    there.remove(made)
    assert len(there) == len(index)
    there.close()


def test_the_client_says_what_is_wrong(server) -> None:
    url, _ = server
    with pytest.raises(ServerError, match="token") as refused:
        gs.connect(url).search(torch.zeros(1, DIM), 3)
    assert refused.value.status == 401
    there = gs.connect(url, token="a-token-of-letters")
    with pytest.raises(ServerError, match="8 numbers"):
        there.search(torch.zeros(1, 7), 3)
    with pytest.raises(gs.InputError, match="http"):
        gs.connect("ftp://nowhere")
    with pytest.raises(ServerError, match="does not answer"):
        gs.connect("http://127.0.0.1:9").about()


def test_a_missing_extra_is_named(monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(gs.InputError, match=r"gradsnap\[serve\]"):
        make_app({}, ServeSettings())


def test_a_full_disk_is_not_another_writer(tmp_path, monkeypatch) -> None:
    """It was said to be another process, and to be tried again."""
    index = gs.ExhaustiveIndex(fitted("pq")).add(clustered(9))
    index.save(tmp_path / "i")
    writer = Writer(OpenedIndex("i", FolderPlace(str(tmp_path / "i")), ServeSettings()))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_writing, "write_segment", full)
    with pytest.raises(Refusal, match="could not be saved") as caught:
        writer.add(clustered(1)[0], None, {})
    assert caught.value.status == 500
    assert len(gs.load_index(tmp_path / "i", verify=True)) == 9
