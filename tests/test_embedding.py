"""Embedding many items, in eager torch and through OpenVINO."""

import pytest
import torch
from torch import nn

import gradsnap as gs
from gradsnap.data import open_digits
from gradsnap.inference.embedding import evaluating
from gradsnap.inference.engines import OpenVinoNetwork
from gradsnap.inference.trunk import FastTrunk, Trunk


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
    images, _ = digits.batch(torch.arange(12))
    with torch.no_grad():
        expected, found = Trunk(net)(images), FastTrunk(net)(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_openvino_says_what_it_cannot_read() -> None:
    pytest.importorskip("openvino")

    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not me")

    with pytest.raises(gs.InputError, match="OpenVINO cannot read Odd"):
        OpenVinoNetwork(Odd(), torch.zeros(2, 3))
