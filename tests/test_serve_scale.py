"""Serving tables and shards: answers equal those of one index of all items."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="install gradsnap[serve]")
pytest.importorskip("httpx", reason="pip install httpx")
pytest.importorskip("lance")

from gradsnap.errors import InputError
from gradsnap.index import ExhaustiveIndex
from gradsnap.scale.lance_index import index_table
from gradsnap.scale.shard_folders import build_shards
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import search_by_index
from gradsnap.scale.versions import remove_rows
from gradsnap.scale.workers import ThisProcess
from gradsnap.serve import ServeSettings, make_app
from tests.conftest import clustered
from tests.ray_processes import actors
from tests.scale_parts import (
    encoded,
    picture,
    vector_coder,
    write_model,
    write_photos,
    write_vectors,
)
from tests.served import InProcess

QUICK = ServeSettings(engine="torch", reopen_seconds=0.05)


def served(**places: Path) -> InProcess:
    return InProcess(make_app({name: str(one) for name, one in places.items()}, QUICK))


def found(answer: Any) -> list[tuple[Any, float]]:
    assert answer.status_code == 200, answer.text
    return [(one["id"], one["distance"]) for one in answer.json()["results"]]


def asked(client: InProcess, name: str, **query: Any) -> list[tuple[Any, float]]:
    return found(client.post("/search", json={"index": name, **query}))


def test_tables_and_shards_answer_as_one_index(tmp_path: Path) -> None:
    path, coder = vector_coder(tmp_path)
    vectors, x = write_vectors(tmp_path, 300)
    table, _ = encoded(path, vectors, tmp_path / "t.lance", half=False, rows=70)
    build_shards(table, tmp_path / "s", 3, ThisProcess())
    build_shards(table, tmp_path / "l", 3, ThisProcess(), "inverted", 8)
    whole = ExhaustiveIndex(coder).add(x)
    with served(
        table=tmp_path / "t.lance", shards=tmp_path / "s", lists=tmp_path / "l"
    ) as client:
        for row in clustered(4, seed=5):
            ids, distances = whole.search(row[None], 9)
            answer = list(zip(ids[0].tolist(), distances[0].tolist(), strict=True))
            query = {"vector": row.tolist(), "k": 9}
            for name, more in (("table", {}), ("shards", {}), ("lists", {"probe": 8})):
                assert asked(client, name, **query, **more) == answer, name
        by_item = whole.search_items([7], 5)
        for name in ("table", "shards"):
            ids = [one for one, _ in asked(client, name, id=7, k=5)]
            assert ids == by_item.ids[0].tolist()
        told = client.get("/indexes").json()["indexes"]
        assert [one["items"] for one in told] == [300, 300, 300]


def test_photos_of_a_table_have_pictures_labels_and_conditions(tmp_path: Path) -> None:
    names = write_photos(tmp_path / "photos", 24)
    model = write_model(tmp_path / "model")
    table, _ = encoded(model, tmp_path / "photos", tmp_path / "t.lance", rows=5)
    build_shards(table, tmp_path / "s", 3, ThisProcess())
    sent = {"content": picture(4), "headers": {"content-type": "image/jpeg"}}
    with served(table=tmp_path / "t.lance", shards=tmp_path / "s") as client:
        answers = [
            client.post(f"/search?index={name}&k=24", **sent)
            for name in ("table", "shards")
        ]
        assert found(answers[0]) == found(answers[1])
        assert {one for one, _ in found(answers[0])} == set(names)
        first = answers[0].json()["results"][0]
        assert first["metadata"]["size"] > 0
        for name in ("table", "shards"):
            facets = client.get(f"/indexes/{name}/facets").json()["facets"]
            assert "label" in {one["column"] for one in facets}
            thumbnail = client.get(f"/thumbnails/{names[0]}?index={name}")
            assert thumbnail.status_code == 200
            assert client.get(f"/random?index={name}&count=3").status_code == 200
            assert client.get(f"/items/{names[0]}?index={name}").json()["code"]
            few = asked(client, name, id=names[0], k=24, where='label = "a-b"')
            assert {one.split("/")[0] for one, _ in few} == {"a-b"}


def test_an_index_of_lance_is_asked(tmp_path: Path) -> None:
    path, _ = vector_coder(tmp_path)
    vectors, _ = write_vectors(tmp_path, 300)
    table, _ = encoded(path, vectors, tmp_path / "t.lance", rows=100)
    index_table(table, ThisProcess(), lists=6)
    table = CodeTable(table.address)
    with served(t=tmp_path / "t.lance") as client:
        assert client.get("/indexes").json()["indexes"][0]["lists"] == 6
        for row in clustered(3, seed=5):
            for probe in (1, 6):
                answer = search_by_index(table, row[None], 5, probe)[0]
                query = {"vector": row.tolist(), "k": 5, "probe": probe}
                assert asked(client, "t", **query) == answer


def test_new_rows_and_removed_ones_are_seen(tmp_path: Path) -> None:
    path, _ = vector_coder(tmp_path)
    vectors, _ = write_vectors(tmp_path, 100)
    table, _ = encoded(path, vectors, tmp_path / "t.lance", rows=50)
    row = clustered(1, seed=5)[0]
    with served(t=tmp_path / "t.lance") as client:
        before = asked(client, "t", vector=row.tolist(), k=1)[0][0]
        remove_rows(table, [before])
        for _ in range(200):
            now = asked(client, "t", vector=row.tolist(), k=100)
            if len(now) == 99:
                break
        assert before not in [one for one, _ in now]


def test_what_is_served_here_is_not_written_here(tmp_path: Path) -> None:
    path, _ = vector_coder(tmp_path)
    vectors, _ = write_vectors(tmp_path, 30)
    encoded(path, vectors, tmp_path / "t.lance", rows=10)
    settings = ServeSettings(engine="torch", writable=True)
    with InProcess(make_app({"t": tmp_path / "t.lance"}, settings)) as client:
        refused = client.delete("/items/3")
        assert refused.status_code == 403
        assert "gradsnap encode --add" in refused.json()["error"]
    with pytest.raises(InputError, match="--on is for a folder of shards"):
        make_app({"t": tmp_path / "t.lance"}, ServeSettings(on="ray"))


def test_equal_distances_are_ordered_as_in_one_index(tmp_path: Path) -> None:
    """Strings keep the order of the table over shards, whatever they say."""
    for number in range(20):
        file = tmp_path / "photos" / f"{19 - number:02d}.jpg"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(picture(number % 2))
    model = write_model(tmp_path / "model")
    table, _ = encoded(model, tmp_path / "photos", tmp_path / "t.lance", rows=6)
    build_shards(table, tmp_path / "s", 3, ThisProcess())
    build_shards(table, tmp_path / "l", 3, ThisProcess(), "inverted", 2)
    with served(t=tmp_path / "t.lance", s=tmp_path / "s", l=tmp_path / "l") as client:
        answers = [
            asked(client, name, id="07.jpg", k=12, **more)
            for name, more in (("t", {}), ("s", {}), ("l", {"probe": 2}))
        ]
    assert answers[0] == answers[1] == answers[2]
    ties = [one for one, far in answers[0] if far == answers[0][0][1]]
    assert ties == sorted(ties)
    assert len(ties) == 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own, of sockets and forks
@pytest.mark.parametrize("partial", [None, 3.0])
def test_a_dead_shard_is_waited_for_or_named(
    tmp_path: Path, partial: float | None
) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    path, _ = vector_coder(tmp_path)
    vectors, _ = write_vectors(tmp_path, 90)
    table, _ = encoded(path, vectors, tmp_path / "t.lance", half=False, rows=30)
    build_shards(table, tmp_path / "s", 3, ThisProcess())
    query = {"index": "s", "vector": clustered(1, seed=5)[0].tolist(), "k": 90}
    settings = ServeSettings(engine="torch", on="ray", partial=partial, seconds=300)
    with served(s=tmp_path / "s") as client:
        whole = found(client.post("/search", json=query))
    with InProcess(make_app({"s": str(tmp_path / "s")}, settings)) as client:
        client.wait = 300
        assert found(waited(client, query)) == whole
        shard = actors("ShardSearcher")[0]
        if partial is None:
            os.kill(shard, signal.SIGKILL)
        else:
            os.kill(shard, signal.SIGSTOP)
            answer = client.post("/search", json=query)
            (missing,) = answer.json()["missing"].items()
            assert missing[0].startswith("shard-000")
            assert missing[1] == "no answer in time"
            assert len(found(answer)) == 60
            assert set(found(answer)) < set(whole)
            os.kill(shard, signal.SIGCONT)
        assert found(waited(client, query)) == whole


def waited(client: InProcess, query: dict[str, Any]) -> Any:
    """The first answer that nothing is missing from."""
    for _ in range(100):
        answer = client.post("/search", json=query)
        if "missing" not in answer.json() and answer.status_code == 200:
            return answer
    raise AssertionError(answer.text)
