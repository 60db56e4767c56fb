"""ONNX encoders: ONNX Runtime gives the codes we give."""

import builtins
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradsnap.coders import HASHERS
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.errors import InputError, NotFittedError
from gradsnap.export import onnx as exporting
from gradsnap.export import write_onnx
from gradsnap.export.encoders import encoder_of
from tests.conftest import DIM, clustered, fitted

runtime = pytest.importorskip("onnxruntime")


def codes_in_onnx(path: Path, x: Tensor) -> Tensor:
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(["codes"], {"input": x.numpy()})
    return torch.from_numpy(found)


@pytest.mark.parametrize("quantizer_kind", ["pq", "opq", "rvq"])
def test_plain_encoders_give_the_same_codes(quantizer_kind: str) -> None:
    quantizer, x = fitted(quantizer_kind), clustered(300, seed=5)
    assert torch.equal(encoder_of(quantizer)(x), quantizer.encode(x).long())


@pytest.mark.parametrize("kind", ["sign", "lsh", "pcah", "itq", "weighted"])
@pytest.mark.parametrize("bits", [8, 5, 12])
def test_hashers_by_hyperplanes_too(kind: str, bits: int) -> None:
    x = clustered(300, dim=bits if kind == "sign" else 12, seed=5)
    hasher = HASHERS[kind](x.shape[1], bits).fit(x, torch.arange(300) % 3)
    assert torch.equal(encoder_of(hasher)(x), hasher.encode(x).long())


@pytest.mark.slow
def test_a_hasher_in_onnx(tmp_path: Path) -> None:
    x = clustered(100, seed=5)
    hasher = HASHERS["lsh"](DIM, 12).fit(x)
    write_onnx(hasher, tmp_path / "hasher.onnx")
    found = codes_in_onnx(tmp_path / "hasher.onnx", x)
    assert torch.equal(found, hasher.encode(x).long())


@pytest.mark.slow  # the exporter takes seconds a graph
@pytest.mark.parametrize("quantizer_kind", ["pq", "opq", "rvq"])
def test_codes_are_equal(quantizer_kind: str, tmp_path: Path) -> None:
    quantizer = fitted(quantizer_kind)
    write_onnx(quantizer, tmp_path / "encoder.onnx")
    for rows in (1, 2, 200):
        x = clustered(rows, seed=5)
        found = codes_in_onnx(tmp_path / "encoder.onnx", x)
        assert torch.equal(found, quantizer.encode(x).long())


def test_images_to_codes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, DIM),
    ).eval()
    images = torch.rand(64, 3, 8, 8)
    embeddings = network(images).detach()
    quantizer = ProductQuantizer(DIM, 3, 16).fit(embeddings)
    path = tmp_path / "encoder.onnx"
    write_onnx(quantizer, path, network, images[:2])
    assert torch.equal(codes_in_onnx(path, images), quantizer.encode(embeddings).long())
    with pytest.raises(InputError, match="needs an example of its input"):
        write_onnx(quantizer, path, network)


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="AdditiveQuantizer cannot be written as a graph; known: Prod"
    ):
        write_onnx(fitted("aq"), tmp_path / "encoder.onnx")
    with pytest.raises(NotFittedError):
        write_onnx(ProductQuantizer(4, 2, 4), tmp_path / "encoder.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without_onnx(name: str, *more: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return importing(name, *more)

    monkeypatch.setattr(builtins, "__import__", without_onnx)
    with pytest.raises(InputError, match=r"install gradsnap\[onnx\]"):
        exporting.write_onnx(fitted("pq"), tmp_path / "encoder.onnx")
