"""Models of the hub, through the real huggingface_hub against a hub on this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from loopback_hub import Hub
from published_files import KERNEL, NAME, RNG, SIDE, WIDTH, encoder, in_bytes, published

from nonneg_core.errors import (
    ConfigInvalid,
    ConnectionFailed,
    DataInvalid,
    DigestMismatch,
    NonnegError,
    NotFound,
    Unauthorized,
)
from nonneg_export.share.hub_repository import ModelAddress, Remote, address
from nonneg_export.wrap.from_onnx import choose, onnx_files
from nonneg_export.wrap.open_tower import open_tower
from nonneg_export.wrap.tower import Tower, TowerOverrides
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session

constants = pytest.importorskip("huggingface_hub.constants")


def opened(name: str = f"hf:{NAME}", **wishes: Any) -> Tower:
    return open_tower(address(name), TowerOverrides(**wishes))


def rows_of(tower: Tower, pixels: np.ndarray) -> np.ndarray:
    return Session(tower.model.SerializeToString()).run(pixels)


PIXELS = RNG.integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)


def by_hand(pixels: np.ndarray) -> np.ndarray:
    """The tower's map, slowly: (n, WIDTH, 4, 4)."""
    x = ((pixels / 255 - 0.5) / 0.25).reshape(-1, 4, 4, 4, 4, 3)  # (n, row, y, column, x, rgb)
    return np.einsum("nrycxk,dkyx->ndrc", x, KERNEL)


def test_the_onnx_file_of_a_repository_is_taken_with_the_view_of_its_own_files(here: Hub) -> None:
    here.files[NAME] = published(onnx__model_onnx=encoder(tokens=True), onnx__model_fp16_onnx=encoder(half=True))
    tower = opened()
    assert (tower.view.size, tower.view.crop, tower.licence) == (SIDE, 0.8, "apache-2.0")
    np.testing.assert_allclose(rows_of(tower, PIXELS), by_hand(PIXELS)[:, :, 0, 0], atol=1e-4)  # vit: the class token
    assert tower.weights == f"hf:{NAME}@{here.commit(NAME)[:12]}, onnx/model.onnx (fp32, 0.0 MB)"
    assert any("onnx/model_fp16.onnx (fp16" in note for note in tower.notes)


def test_precision_output_pool_and_view_can_be_said_otherwise(here: Hub) -> None:
    here.files[NAME] = published(model_onnx=encoder(tokens=True), model_fp16_onnx=encoder(half=True))
    half = opened(file="fp16")
    np.testing.assert_allclose(rows_of(half, PIXELS), by_hand(PIXELS).mean((2, 3)), atol=0.02)
    tower = opened(output="last_hidden_state", pool="mean", view_fields={"crop": 0.5}, mean=(0.0,) * 3, std=(1.0,) * 3)
    assert tower.view.crop == 0.5
    assert rows_of(tower, PIXELS).shape == (3, WIDTH)
    assert not np.allclose(rows_of(tower, PIXELS), by_hand(PIXELS).mean((2, 3)), atol=0.1)


def test_a_file_of_bytes_is_taken_where_it_is_asked_for(here: Hub) -> None:
    here.files[NAME] = published(onnx__model_onnx=encoder(), onnx__model_int8_onnx=in_bytes())
    tower = opened(file="int8")
    assert "onnx/model_int8.onnx (int8" in tower.weights
    np.testing.assert_allclose(rows_of(tower, PIXELS), by_hand(PIXELS).mean((2, 3)), atol=0.05)


def test_weights_beside_the_graph_are_fetched_and_no_others(here: Hub, tmp_path: Path) -> None:
    model = onnx.load_from_string(encoder())
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    beside = {f"onnx/{name}": (tmp_path / name).read_bytes() for name in ("model.onnx", "model.onnx_data")}
    here.files[NAME] = {**published(), **beside, "onnx/other.bin": b"x", "evil.py": b"raise SystemExit"}
    np.testing.assert_allclose(rows_of(opened(), PIXELS), by_hand(PIXELS).mean((2, 3)), atol=1e-4)
    assert {name for name, _ in here.asked} == {
        "README.md", "config.json", "preprocessor_config.json", "onnx/model.onnx", "onnx/model.onnx_data",
    }  # fmt: skip


def test_weights_beside_the_graph_count_towards_the_limit_before_they_are_fetched(here: Hub, tmp_path: Path) -> None:
    model = onnx.load_from_string(encoder())
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    beside = {name: (tmp_path / name).read_bytes() for name in ("model.onnx", "model.onnx_data")}
    here.files[NAME] = {**published(), **beside}
    with pytest.raises(DataInvalid, match=r"2 files of .* together, more than"):
        opened(limit=max(map(len, beside.values())) + 1)
    assert "model.onnx_data" not in {name for name, _ in here.asked}


def test_a_revision_is_pinned_and_a_second_run_needs_no_network(here: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    here.files[NAME] = published(model_onnx=encoder())
    first = opened(f"hf:{NAME}@main")
    asked = len(here.asked)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    again = opened(f"hf:{NAME}@main")
    assert (again.weights.partition(" ")[0], again.licence) == (first.weights.partition(" ")[0], "apache-2.0")
    np.testing.assert_array_equal(rows_of(again, PIXELS), rows_of(first, PIXELS))
    assert len(here.asked) == asked
    with pytest.raises(ConnectionFailed, match="is not in the cache"):
        opened("hf:someone/else")


def test_a_download_that_broke_off_is_resumed(here: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100)
    here.files[NAME] = published(model_onnx=encoder())
    here.cut["model.onnx"] = 500
    try:
        tower = opened()
    except NonnegError:  # the library tries again by itself, or the next command does
        tower = opened()
    assert ("model.onnx", "bytes=500-") in here.asked
    np.testing.assert_allclose(rows_of(tower, PIXELS), by_hand(PIXELS).mean((2, 3)), atol=1e-4)


def test_a_private_model_needs_its_token(here: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    here.files[NAME] = published(model_onnx=encoder())
    here.private[NAME] = True
    with pytest.raises(NotFound, match="log in with `hf auth login`"):
        opened()
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    assert opened().view.size == SIDE


def _set(record: dict[str, bytes], **files: bytes | None) -> dict[str, bytes]:
    named = {name.replace("_json", ".json").replace("_onnx", ".onnx"): data for name, data in files.items()}
    return {name: data for name, data in {**record, **named}.items() if data is not None}


WHOLE = published(model_onnx=encoder())
PICKLED = {**published(), "pytorch_model.bin": b"\x80\x02}q\x00."}
LARGER, UNSEEN = _set(WHOLE, model_onnx=encoder(side=32)), _set(WHOLE, preprocessor_config_json=None)
ND = {**WHOLE, "README.md": b"---\nlicense: cc-by-nc-nd-4.0\n---\n"}
REFUSED: dict[str, tuple[dict[str, bytes], dict[str, Any], type[NonnegError], str]] = {
    "a broken file": (
        _set(WHOLE, model_onnx=b"\xff\xff not"),
        {},
        DataInvalid,
        "model.onnx of .* is not an ONNX model",
    ),
    "a pickle": (PICKLED, {}, DataInvalid, "only pytorch_model.bin: reading a pickle runs"),
    "a licence that forbids": (ND, {}, ConfigInvalid, "forbids passing on.*--accept-license cc-by-nc-nd-4.0"),
    "two image sizes": (LARGER, {}, ConfigInvalid, "takes 32 x 32 pixels, not 16: use --size 32"),
    "a size over the limit": (WHOLE, {"limit": 100}, DataInvalid, "model.onnx of .* more than"),
    "a file that is not there": (
        WHOLE,
        {"file": "x.onnx"},
        ConfigInvalid,
        r"'x.onnx': choose one of model.onnx \(fp32",
    ),
    "a precision that is not there": (WHOLE, {"file": "int8"}, ConfigInvalid, "in int8: choose one of model.onnx"),
    "no view": (UNSEEN, {}, DataInvalid, "no preprocessor_config.json.*say it with --size"),
    "a configuration that is not JSON": (_set(WHOLE, config_json=b"{"), {}, DataInvalid, "config.json of .* not JSON"),
    "an output that is not there": (WHOLE, {"output": "x"}, ConfigInvalid, "no output 'x'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_taken_is_refused_with_the_way_out(case: str, here: Hub) -> None:
    files, wishes, kind, message = REFUSED[case]
    here.files[NAME] = files
    with pytest.raises(kind, match=message) as caught:
        opened(**wishes)
    assert caught.value.fix


def test_a_licence_that_forbids_can_be_accepted_by_name(here: Hub) -> None:
    here.files[NAME] = {**WHOLE, "README.md": b"---\nlicense: cc-by-nc-nd-4.0\n---\n"}
    tower = opened(accepted="cc-by-nc-nd-4.0")
    assert tower.licence == "cc-by-nc-nd-4.0"
    assert any("not for commercial use" in note for note in tower.notes)


def test_what_is_not_there_not_open_or_not_reached_is_said(here: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="check the name"):
        opened("hf:no/body")
    here.files[NAME] = WHOLE
    with pytest.raises(NotFound, match="has no such revision"):
        opened(f"hf:{NAME}@nowhere")
    here.gated.add(NAME)
    with pytest.raises(Unauthorized, match="ask for access on its page"):
        opened()
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConnectionFailed, match="cannot be reached"):
        opened("hf:someone/new")


@pytest.mark.parametrize("name", ["model.onnx", "preprocessor_config.json"])
def test_a_file_that_is_not_the_stated_one_is_refused(name: str, here: Hub) -> None:
    here.files[NAME] = WHOLE
    here.altered.add(name)
    with pytest.raises(DigestMismatch, match="delete it and run the command again"):
        opened()


@pytest.mark.parametrize("text", ["hf:encoder", "hf:a/b/c", "hf:../x", "open_clip:ViT-B-32", "ftp:x", "timm:"])
def test_an_address_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="write "):
        address(text)


def test_addresses_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert address("hf:a/b@v1") == ModelAddress("hf", "a/b", "v1")
    assert address("open_clip:ViT-B-32/laion2b") == ModelAddress("open_clip", "ViT-B-32", "laion2b")
    assert address("timm:resnet50.a1_in1k") == ModelAddress("timm", "resnet50.a1_in1k")
    assert address("resnet50") == address("torchvision:resnet50") == ModelAddress("torchvision", "resnet50")
    assert address("models/dino.onnx").kind == "file"
    (tmp_path / "resnet50").touch()
    assert address("resnet50").kind == "file"


def test_of_two_towers_the_image_file_is_chosen() -> None:
    names = ("onnx/text_model.onnx", "onnx/vision_model_quantized.onnx", "onnx/vision_model.onnx", "onnx/model.onnx",
             "onnx/vision_model_q4.onnx", "onnx/decoder.onnx")  # fmt: skip
    files = {name: Remote(size=10) for name in names}
    chosen = choose(files, two_towers=True, choice=None)
    assert chosen is not None
    assert chosen.name == "onnx/vision_model.onnx"
    text = choose(files, two_towers=True, choice=None, role="text")
    assert text is not None
    assert text.name == "onnx/text_model.onnx"
    assert len(onnx_files(files)) == 4
    assert choose({"model.onnx": Remote()}, two_towers=True, choice=None) is None


def test_the_command_wraps_a_model_of_the_hub(hub: Hub, labelled: Path, tmp_path: Path) -> None:
    hub.files[NAME] = published(onnx__model_onnx=encoder(tokens=True))
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
    words = ["wrap", f"hf:{NAME}", "--calibrate", str(labelled), "--out", str(tmp_path / "b")]
    command = [str(Path(sys.executable).with_name("nonneg")), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "licence: apache-2.0" in done.stderr
    manifest = open_bundle(tmp_path / "b").manifest
    assert manifest.provenance.weights.startswith(f"hf:{NAME}@{hub.commit(NAME)[:12]}, onnx/model.onnx")
    assert manifest.provenance.weights_license == "apache-2.0"
    names = ("README.md", "config.json", "onnx/model.onnx", "preprocessor_config.json")
    assert manifest.provenance.fetched == {
        f"hf:{NAME}@{hub.commit(NAME)}/{name}": hashlib.sha256(hub.files[NAME][name]).hexdigest() for name in names
    }
    assert (manifest.view.size, manifest.dimensions) == (SIDE, 2 * WIDTH)
