"""Coders in files: what is refused, and that nothing is ever half written."""

import errno
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from gradsnap import files as tensors
from gradsnap.coders import Coder, load_coder
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import write_tensors
from tests.conftest import assert_same_state, clustered, fitted
from tests.platforms import small_files_only


@pytest.fixture
def path(tmp_path: Path, coder: Coder) -> Path:
    """A file with a coder of every kind in it."""
    path = tmp_path / "coder.safetensors"
    coder.save(path)
    return path


@pytest.fixture
def product_path(tmp_path: Path) -> Path:
    """A file with a product quantizer in it."""
    path = tmp_path / "quantizer.safetensors"
    fitted("pq").save(path)
    return path


def contents(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        words = dict(file.metadata())
    del words[tensors.CHECKSUM]  # made right again by write_tensors
    return words, state


def files_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# --- files that are not what they should be -----------------------------------


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused(path: Path, share: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FileFormatError, match="truncated or not a safetensors file"):
        load_coder(path)


@pytest.mark.parametrize(
    "garbage", [b"hello", b"\x00" * 1000, b"\xff" * 1000, b"PK\x03\x04" * 50]
)
def test_garbage_is_refused(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(garbage)
    with pytest.raises(FileFormatError, match="garbage is truncated or not"):
        load_coder(path)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"codebooks": torch.zeros(3)}, path)
    with pytest.raises(FileFormatError):
        load_coder(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"format": "gradsnap-2"}])
def test_a_foreign_safetensors_file_is_refused(
    tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(3)}, path, metadata)
    with pytest.raises(FileFormatError, match="expected 'gradsnap-coder-1'") as error:
        load_coder(path)
    assert "foreign.safetensors is not a coder" in str(error.value)
    assert repr((metadata or {}).get("format")) in str(error.value)


def test_an_unknown_kind_is_refused_with_the_known_ones(product_path: Path) -> None:
    metadata, state = contents(product_path)
    write_tensors(product_path, state, metadata | {"kind": "vq-vae"})
    with pytest.raises(
        FileFormatError, match="'vq-vae'; known: pq, opq, rvq, grvq, aq, cq, sq, lopq"
    ):
        load_coder(product_path)


def test_the_wrong_kind_is_refused(product_path: Path) -> None:
    metadata, state = contents(product_path)
    for kind in ("opq", "rvq", "aq", "cq"):
        write_tensors(product_path, state, metadata | {"kind": kind})
        with pytest.raises(FileFormatError, match=f"does not fit a {kind}"):
            load_coder(product_path)


@pytest.mark.parametrize(
    "change",
    [
        {"dim": -1},
        {"num_codebooks": 3},
        {"codebook_size": 32},
        {"codebook_size": 17},
        {"decay": 2.0},
        {"dim": "8"},
        {"dim": None},
        {"unheard_of": 1},
    ],
)
def test_a_changed_config_is_refused(path: Path, change: dict[str, object]) -> None:
    metadata, state = contents(path)
    config = json.loads(metadata["config"]) | change
    write_tensors(path, state, metadata | {"config": json.dumps(config)})
    with pytest.raises(FileFormatError, match="does not fit a"):
        load_coder(path)


def test_a_changed_dim_is_refused_where_buffers_tell_it(
    path: Path, coder_kind: str
) -> None:
    metadata, state = contents(path)
    config = json.loads(metadata["config"]) | {"dim": 16}
    write_tensors(path, state, metadata | {"config": json.dumps(config)})
    if coder_kind == "fasthash":  # trees name dimensions, and no buffer is that long
        assert load_coder(path).dim == 16
        return
    with pytest.raises(FileFormatError, match="does not fit a"):
        load_coder(path)


@pytest.mark.parametrize("config", ["", "{", "[]", "null", "3", '"pq"', "{}"])
def test_a_broken_config_is_refused(product_path: Path, config: str) -> None:
    metadata, state = contents(product_path)
    write_tensors(product_path, state, metadata | {"config": config})
    with pytest.raises(FileFormatError, match="does not fit a pq"):
        load_coder(product_path)


@pytest.mark.parametrize("entry", ["kind", "config", "format"])
def test_a_missing_entry_is_refused(product_path: Path, entry: str) -> None:
    metadata, state = contents(product_path)
    del metadata[entry]
    write_tensors(product_path, state, metadata)
    with pytest.raises(FileFormatError):
        load_coder(product_path)


def test_a_missing_surplus_or_misshapen_tensor_is_refused(path: Path) -> None:
    metadata, state = contents(path)
    for name, value in state.items():
        others = {key: other for key, other in state.items() if key != name}
        write_tensors(path, others, metadata)
        with pytest.raises(FileFormatError, match="does not fit a"):
            load_coder(path)
        write_tensors(path, others | {name: torch.stack([value, value])}, metadata)
        with pytest.raises(FileFormatError, match="does not fit a"):
            load_coder(path)
    write_tensors(path, state | {"more": torch.zeros(2)}, metadata)
    with pytest.raises(FileFormatError, match="more"):
        load_coder(path)
    write_tensors(path, {}, metadata)
    with pytest.raises(FileFormatError, match="does not fit a"):
        load_coder(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*absent"):
        load_coder(tmp_path / "absent")
    with pytest.raises(InputError, match="no file"):
        load_coder(tmp_path)


# --- writing ------------------------------------------------------------------


def test_saving_replaces_and_leaves_nothing_beside(product_path: Path) -> None:
    other = ProductQuantizer(dim=4, num_codebooks=2, codebook_size=4)
    other.fit(clustered(50, 4)).save(str(product_path))
    assert files_in(product_path.parent) == ["quantizer.safetensors"]
    assert load_coder(str(product_path)).dim == 4


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"folder .*nowhere does not exist"):
        fitted("pq").save(tmp_path / "nowhere" / "quantizer")
    assert files_in(tmp_path) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        fitted("pq").save(tmp_path / "models")
    assert files_in(tmp_path) == ["models"]
    assert files_in(tmp_path / "models") == []


def test_a_quantizer_that_is_in_no_registry_is_not_saved(tmp_path: Path) -> None:
    class Own(ProductQuantizer):
        pass

    with pytest.raises(InputError, match=r"Own is in no registry.*known: pq, opq"):
        Own(dim=4, num_codebooks=2, codebook_size=4).save(tmp_path / "own")
    assert files_in(tmp_path) == []


def assert_old_file_stands(path: Path, old: Coder) -> None:
    assert files_in(path.parent) == [path.name]
    assert_same_state(load_coder(path), old)


def test_a_full_disk_leaves_the_old_file(
    product_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _: bytes) -> None:
        with path.open("wb") as file:
            file.write(b"the beginning of something")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match=r"cannot write .*: .*No space left on device"):
        fitted("pq").update(clustered(50)).save(product_path)
    assert_old_file_stands(product_path, fitted("pq"))


def test_a_write_the_system_refuses_leaves_the_old_file(product_path: Path) -> None:
    newer = fitted("pq").update(clustered(50))
    with (
        pytest.raises(InputError, match=r"cannot write .*: .*File too large"),
        small_files_only(1024),
    ):
        newer.save(product_path)
    assert_old_file_stands(product_path, fitted("pq"))


def test_an_interrupt_leaves_the_old_file(
    product_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tensors, "tensor_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted("pq").update(clustered(50)).save(product_path)
    assert_old_file_stands(product_path, fitted("pq"))
