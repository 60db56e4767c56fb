"""Embedding many items, in eager torch and through OpenVINO."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

import gradsnap as gs
from gradsnap.data import open_dataset, open_digits
from gradsnap.inference import embedding, engines, openvino_network
from gradsnap.inference.embedding import EmbeddingStream, evaluating
from gradsnap.inference.engines import OpenVinoNetwork
from gradsnap.inference.trunk import Trunk


def network() -> gs.networks.Network:
    return gs.build_network("small", dim=6, side=8, width=4)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_batches_do_not_matter(batch_size: int) -> None:
    digits, net = open_digits(), network()
    indices = torch.tensor([5, 3, 5, 100])
    images, _ = digits.batch(indices)
    with torch.no_grad(), evaluating(net):
        expected = net(net.preprocess(images))
    found = gs.embed(net, digits, indices, batch_size=batch_size)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gs.embed(net, images), expected)


def test_the_mode_of_every_part_is_kept() -> None:
    net = network().train()
    net.blocks()[0].eval()
    modes = [part.training for part in net.modules()]
    gs.embed(net, torch.zeros(2, 1, 8, 8))
    assert [part.training for part in net.modules()] == modes


def test_any_module_embeds() -> None:
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(gs.embed(nn.Identity(), rows), rows)


def test_nothing_to_embed_is_refused() -> None:
    with pytest.raises(gs.InputError, match="nothing to embed"):
        gs.embed(network(), open_digits(), torch.empty(0, dtype=torch.int64))


def test_embeddings_may_be_trained_on() -> None:
    rows = gs.embed(network(), torch.zeros(2, 1, 8, 8))
    nn.Linear(6, 2)(rows).sum().backward()  # an inference tensor would raise


def test_openvino_leaves_threads_where_there_is_room() -> None:
    """Pinned, all processes of a machine would take its first core."""
    pytest.importorskip("openvino")
    linear, rows = torch.nn.Linear(3, 2), torch.zeros(2, 3)
    made = openvino_network._compile(linear, rows, threads=1, brief=False)
    assert made.get_property("ENABLE_CPU_PINNING") is False


def test_openvino_gives_the_same() -> None:
    pytest.importorskip("openvino")
    digits, net = open_digits(), network()
    ready = net.preprocess(digits.batch(torch.arange(2))[0])
    fast = OpenVinoNetwork(net, ready)
    indices = torch.arange(40)
    expected = gs.embed(net, digits, indices)
    found = gs.embed(fast, digits, indices, batch_size=16)  # the last has 8 rows
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_openvino_computes_trunks() -> None:
    pytest.importorskip("openvino")
    digits, net = open_digits(), network().eval()
    trunk, indices = Trunk(net), torch.arange(12)
    expected = gs.embed(trunk, digits, indices, engine="torch")
    found = gs.embed(trunk, digits, indices, engine="openvino", batch_size=5)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def has_bfloat16() -> bool:
    openvino = pytest.importorskip("openvino")
    return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def test_bfloat16_is_near() -> None:
    if not has_bfloat16():
        pytest.skip("this processor has no bfloat16")
    digits, net, some = open_digits(), network().eval(), torch.arange(40)
    expected = gs.embed(net, digits, some, engine="torch")
    found = gs.embed(net, digits, some, engine="openvino-bf16")
    difference = (found - expected).norm() / expected.norm()
    assert 1e-5 < difference < 0.05  # another precision, and not another network


def test_bfloat16_is_refused_where_there_is_none(monkeypatch) -> None:
    openvino = pytest.importorskip("openvino")

    class Old:
        def get_property(self, *_: str) -> list[str]:
            return ["FP32"]

    monkeypatch.setattr(openvino, "Core", Old)
    with pytest.raises(gs.InputError, match="choose the engine openvino"):
        gs.embed(network(), open_digits(), torch.arange(4), engine="openvino-bf16")


def test_an_engine_is_preferred_where_none_is_named() -> None:
    net = network().eval()
    with engines.preferring("openvino"):
        assert isinstance(engines.engine_for(net, 1, (1, 8, 8)), engines.CheckedEngine)
        named = engines.engine_for(net, 1, (1, 8, 8), "torch")
        assert not isinstance(named, engines.CheckedEngine)
        vectors = engines.engine_for(nn.Identity(), 10**9, (8,))
        assert not isinstance(vectors, engines.CheckedEngine)
    assert not isinstance(engines.engine_for(net, 1, (1, 8, 8)), engines.CheckedEngine)


def test_an_engine_that_is_none_is_refused() -> None:
    with (
        pytest.raises(gs.InputError, match="'gpu'; choose from auto, torch"),
        engines.preferring("gpu"),
    ):
        pass


def fast_engines(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes every network that OpenVINO compiles."""
    made: list[int] = []
    compile_ = openvino_network._compile

    def noted(module, example, threads, brief):
        made.append(len(example))
        return compile_(module, example, threads, brief)

    monkeypatch.setattr(openvino_network, "_compile", noted)
    return made


def test_enough_images_take_the_fast_engine_by_themselves(monkeypatch) -> None:
    pytest.importorskip("openvino")
    made, digits, net = fast_engines(monkeypatch), open_digits(), network()
    gs.embed(net, digits, torch.arange(40))
    assert made == []  # so few pixels are not worth compiling for
    monkeypatch.setattr(engines, "WORTH_PIXELS", 40 * 64)
    found = gs.embed(net, digits, torch.arange(40), batch_size=16)
    assert len(made) == 1
    expected = gs.embed(net, digits, torch.arange(40), engine="torch")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_fast_engine_that_errs_is_not_used(monkeypatch, caplog) -> None:
    pytest.importorskip("openvino")
    monkeypatch.setattr(engines, "WORTH_PIXELS", 1)
    forward = OpenVinoNetwork.forward
    monkeypatch.setattr(OpenVinoNetwork, "forward", lambda s, x: forward(s, x) * 1.1)
    digits, net, some = open_digits(), network(), torch.arange(9)
    expected = gs.embed(net, digits, some, engine="torch")
    found = gs.embed(net, digits, some, batch_size=4)
    torch.testing.assert_close(found, expected)
    assert "differ from torch's" in caplog.text
    with pytest.raises(gs.InputError, match="choose the engine torch"):
        gs.embed(net, digits, some, engine="openvino")


def test_a_sample_is_not_embedded_again() -> None:
    digits, seen = open_digits(), []

    class Noting(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(len(images))
            return images.flatten(1).float()

    stream = EmbeddingStream(digits, Noting())
    indices, rows = stream.sample(500)
    assert len(indices) == len(rows) == sum(seen) < 500
    parts = [part for _, part in stream.blocks("embedding")]
    assert sum(seen) == len(digits)
    torch.testing.assert_close(
        torch.cat(parts),
        digits.items.batch(torch.arange(len(digits))).flatten(1).float(),
    )


def photo_folder(folder: Path, count: int) -> Path:
    """JPEGs in colour, of several sizes."""
    generator = torch.Generator().manual_seed(0)
    for place in range(count):
        shape = (20 + place, 30 - place, 3)
        pixels = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        Image.fromarray(pixels.numpy()).save(folder / f"{place}.jpg")
    return folder


@pytest.mark.parametrize("side", [8, 12])  # the network's own, and one to resize from
def test_photos_are_embedded_alike_by_all(tmp_path: Path, side: int) -> None:
    pytest.importorskip("openvino")
    photos = open_dataset(photo_folder(tmp_path, 7), side=side)
    net = gs.build_network("small", dim=6, side=8, width=4, channels=3)
    one_by_one = torch.cat([gs.embed(net, photos[i][0][None]) for i in range(7)])
    for engine in ("torch", "openvino"):
        found = gs.embed(net, photos, engine=engine, batch_size=3)
        torch.testing.assert_close(found, one_by_one, rtol=1e-4, atol=1e-5)


def test_large_images_come_in_smaller_batches() -> None:
    seen: list[int] = []

    class Noting(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(len(images))
            return images[:, :, 0, 0].float()

    images = torch.zeros(40, 3, 224, 224, dtype=torch.uint8)
    gs.embed(Noting(), images, engine="torch")
    gs.embed(Noting(), images[..., :8, :8], engine="torch")
    assert seen == [33, 7, 40]


def test_a_stream_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    made, digits, net = fast_engines(monkeypatch), open_digits(), network()
    monkeypatch.setattr(engines, "WORTH_PIXELS", 1)
    monkeypatch.setattr(embedding, "BLOCK", 1000)
    blocks = [rows for _, rows in EmbeddingStream(digits, net).blocks("embedding")]
    assert len(blocks) == 2
    assert len(made) == 1


def test_several_threads_keep_the_order() -> None:
    pytest.importorskip("openvino")
    digits, net = open_digits(), network().eval()
    images = net.preprocess(digits.batch(torch.arange(100))[0])
    with torch.no_grad():
        expected = net(images)
    found = OpenVinoNetwork(net, images[:2], threads=2)(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_openvino_says_what_it_cannot_read() -> None:
    pytest.importorskip("openvino")

    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not me")

    with pytest.raises(gs.InputError, match="OpenVINO cannot read Odd"):
        OpenVinoNetwork(Odd(), torch.zeros(2, 3))
