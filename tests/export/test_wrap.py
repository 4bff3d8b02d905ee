from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto, TensorProto, helper, numpy_helper

from nonneg_core.errors import CheckFailed, ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.assembly.head_steps import HeadSteps, behind, check_head_steps, read_head
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_export.commands.wrap import wrap
from nonneg_export.wrap.from_onnx import OnnxInterface, features
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

MEAN, STD = np.array((0.485, 0.456, 0.406)), np.array((0.229, 0.224, 0.225))
KERNEL = np.random.default_rng(0).normal(size=(6, 3, 4, 4)).astype(np.float32)


def tower(
    kind: str = "rows", *, elem: int = TensorProto.FLOAT, batch: object = "n", opset: int = 17, extra: bool = False
) -> ModelProto:
    """A patch embedding of 16 x 16 pixels, as encoders come: float NCHW in; rows, tokens or a map out."""
    nodes = [helper.make_node("Conv", ["pixel_values", "embedding"], ["map"], strides=[4, 4])]
    out, shape = "map", [batch, 6, 4, 4]
    if kind in ("rows", "both"):
        nodes += [helper.make_node("GlobalAveragePool", ["map"], ["p"]), helper.make_node("Flatten", ["p"], ["rows"])]
        out, shape = "rows", [batch, 6]
    if kind in ("tokens", "both"):
        flat = numpy_helper.from_array(np.array([0, 6, 16], np.int64))
        nodes += [
            helper.make_node("Constant", [], ["flat"], value=flat),
            helper.make_node("Reshape", ["map", "flat"], ["r"]),
            helper.make_node("Transpose", ["r"], ["tokens"], perm=[0, 2, 1]),
        ]
        if kind == "tokens":
            out, shape = "tokens", [batch, 16, 6]
    inputs = [helper.make_tensor_value_info("pixel_values", elem, [batch, 3, 16, 16])]
    if extra:
        inputs.append(helper.make_tensor_value_info("input_ids", TensorProto.INT64, [batch, 77]))
    outputs = [helper.make_tensor_value_info(out, elem, shape)]
    if kind == "both":
        outputs.append(helper.make_tensor_value_info("tokens", elem, [batch, 16, 6]))
    kernel = KERNEL.astype(np.float16) if elem == TensorProto.FLOAT16 else KERNEL
    graph = helper.make_graph(nodes, "tower", inputs, outputs, [numpy_helper.from_array(kernel, "embedding")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def by_hand(pixels: np.ndarray) -> np.ndarray:
    """What the tower's map is, slowly: (batch, 6, 4, 4)."""
    x = ((pixels / 255.0 - MEAN) / STD).transpose(0, 3, 1, 2)
    found = np.zeros((len(x), 6, 4, 4))
    for i in range(4):
        for j in range(4):
            patch = x[:, :, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
            found[:, :, i, j] = np.einsum("bchw,kchw->bk", patch, KERNEL)
    return found


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    def save(*arguments: Any, **options: Any) -> Path:
        onnx.save(tower(*arguments, **options), tmp_path / "tower.onnx")
        return tmp_path / "tower.onnx"

    return save


How = tuple[OnnxInterface, HeadSteps]
STEPS = ("head", "centre", "relu")


def how(encoder: Path, size: int = 16, **options: Any) -> How:
    steps = {name: options.pop(name) for name in STEPS if name in options}
    return OnnxInterface(encoder, View(size=size, crop=0.875), Scaling(), **options), HeadSteps(**steps)


def wrapped(how: How, rows: np.ndarray | None = None) -> ModelProto:
    """The whole encoder; `rows`: features of the calibration photos, where it is computed from any."""
    encoding, steps = how
    check_head_steps(steps)
    return behind(
        steps, features(encoding), np.zeros((2, 6), np.float32) if rows is None else rows.astype(np.float32)
    ).model


def run(model: ModelProto, folder: Path, pixels: np.ndarray) -> np.ndarray:
    onnx.save(model, folder / "wrapped.onnx")
    return Session(folder / "wrapped.onnx").run(pixels)


PIXELS = np.random.default_rng(1).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
KINDS: dict[str, tuple[str, dict[str, str], Callable[[np.ndarray], np.ndarray]]] = {
    "rows": ("rows", {}, lambda m: m.mean((2, 3))),
    "a map, averaged": ("map", {"pool": "mean"}, lambda m: m.mean((2, 3))),
    "tokens, averaged": ("tokens", {"pool": "mean"}, lambda m: m.reshape(-1, 6, 16).mean(2)),
    "the first token": ("tokens", {"pool": "cls"}, lambda m: m.reshape(-1, 6, 16)[:, :, 0]),
    "one output of two": ("both", {"output_name": "tokens", "pool": "cls"}, lambda m: m.reshape(-1, 6, 16)[:, :, 0]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [13, 18, 20])
def test_a_wrapped_encoder_scales_pools_and_answers_rows(
    kind: str, opset: int, saved: Callable[..., Path], tmp_path: Path
) -> None:
    name, options, expected = KINDS[kind]
    model = wrapped(how(saved(name, opset=opset), relu=True, **options))  # type: ignore[arg-type]
    np.testing.assert_allclose(run(model, tmp_path, PIXELS), np.maximum(expected(by_hand(PIXELS)), 0), atol=2e-5)


def test_a_half_precision_tower_is_fed_and_answers_floats(saved: Callable[..., Path], tmp_path: Path) -> None:
    model = wrapped(how(saved("rows", elem=TensorProto.FLOAT16), relu=True))
    np.testing.assert_allclose(
        run(model, tmp_path, PIXELS), np.maximum(by_hand(PIXELS).mean((2, 3)), 0), atol=0.02, rtol=0.02
    )


def test_a_fixed_batch_of_one_is_loosened(saved: Callable[..., Path], tmp_path: Path) -> None:
    model = wrapped(how(saved("rows", batch=1), relu=True))
    assert run(model, tmp_path, PIXELS).shape == (3, 6)


def test_centring_makes_ordinary_features_sparse(saved: Callable[..., Path], labelled: Path, tmp_path: Path) -> None:
    encoder, photos = saved("rows"), find_photos(labelled)
    view = View(size=16, crop=0.875)
    pixels = np.stack([load_pixels(path, view)[0] for path in photos.paths])
    features = by_hand(pixels).mean((2, 3))
    model = wrapped(how(encoder, centre=True), features)
    np.testing.assert_allclose(run(model, tmp_path, pixels), np.maximum(features - features.mean(axis=0), 0), atol=5e-5)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_trained_head_is_put_behind_it(suffix: str, saved: Callable[..., Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tensors = {"weight": rng.normal(size=(9, 6)).astype(np.float32), "bias": rng.normal(size=9).astype(np.float32)}
    head = tmp_path / f"head{suffix}"
    if suffix == ".npz":
        np.savez(head, **tensors)
    else:
        from safetensors.numpy import save_file

        save_file(tensors, head)
    model = wrapped(how(saved("rows"), head=str(head), relu=True))
    expected = np.maximum(by_hand(PIXELS).mean((2, 3)) @ tensors["weight"].T + tensors["bias"], 0)
    np.testing.assert_allclose(run(model, tmp_path, PIXELS), expected, atol=5e-5)


def test_a_head_that_does_not_fit_or_is_none_is_refused(saved: Callable[..., Path], tmp_path: Path) -> None:
    np.savez(tmp_path / "narrow.npz", weight=np.zeros((9, 5)))
    with pytest.raises(DataInvalid, match="does not fit 6 features"):
        wrapped(how(saved("rows"), head=str(tmp_path / "narrow.npz")))
    np.savez(tmp_path / "other.npz", w=np.zeros(3))
    with pytest.raises(DataInvalid, match="but no 'weight'"):
        read_head(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", weight=np.array([{}], dtype=object))
    with pytest.raises(DataInvalid, match="cannot be read"):
        read_head(tmp_path / "pickled.npz")
    with pytest.raises(DataInvalid, match=r"neither \.npz nor"):
        read_head(tmp_path / "head.pt")


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = {
    "tokens without a pool": ({"kind": "tokens"}, {}, ConfigInvalid, "pool it with --pool mean or --pool cls"),
    "a map without a pool": ({"kind": "map"}, {}, ConfigInvalid, "pool it with --pool mean, or"),
    "two outputs": ({"kind": "both"}, {}, ConfigInvalid, "choose one of rows, tokens"),
    "an unknown output": ({}, {"output_name": "x"}, ConfigInvalid, "no output 'x': choose one of rows"),
    "an unknown input": ({}, {"input_name": "x"}, ConfigInvalid, "its input is 'pixel_values'"),
    "a text input": ({"extra": True}, {}, DataInvalid, "has 2 inputs"),
    "an old opset": ({"opset": 9}, {}, DataInvalid, "uses opset 9; at least 11"),
    "a ReLU after a ReLU": ({}, {"relu": True, "centre": True}, ConfigInvalid, "already ends in a ReLU"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_wrapped_is_refused_with_the_way_out(name: str, saved: Callable[..., Path]) -> None:
    made, options, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        wrapped(how(saved(**made), **options))


def test_another_size_than_the_encoders_is_refused(saved: Callable[..., Path]) -> None:
    wrong = how(saved("rows"), size=32)
    with pytest.raises(ConfigInvalid, match="takes 16 x 16 pixels, not 32: use --size 16"):
        wrapped(wrong)


def test_an_operator_that_onnx_runtime_lacks_is_named(saved: Callable[..., Path]) -> None:
    path = saved("rows")
    model = onnx.load(path)
    model.graph.node[0].op_type = "FancyConv"
    model.graph.node[0].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(model, path)
    with pytest.raises(DataInvalid, match="FancyConv"):
        wrapped(how(path))


def test_a_file_that_is_not_onnx_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff\xff not a model")
    with pytest.raises(DataInvalid, match="is not a valid ONNX model"):
        wrapped(how(tmp_path / "m.onnx"))
    with pytest.raises(DataInvalid, match=r"No such file or directory.*: check the path"):
        wrapped(how(tmp_path / "nowhere.onnx"))


def test_the_command_makes_a_bundle(saved: Callable[..., Path], labelled: Path, tmp_path: Path) -> None:
    arguments = [str(saved("rows")), "--calibrate", str(labelled), "--out", str(tmp_path / "b"), "--size", "16"]
    result = CliRunner().invoke(wrap, [*arguments, "--centre", "--license", "MIT", "--triton", str(tmp_path / "t")])
    assert result.exit_code == 0, result.output
    manifest = open_bundle(tmp_path / "b").manifest
    assert (manifest.activation, manifest.dimensions) == ("relu(features - mean)", 6)
    assert (manifest.view.size, manifest.view.crop) == (16, 0.875)
    assert (tmp_path / "t" / "b" / "1" / "model.onnx").is_file()


def test_the_command_refuses_features_that_go_below_zero(
    saved: Callable[..., Path], labelled: Path, tmp_path: Path
) -> None:
    arguments = [str(saved("rows")), "--calibrate", str(labelled), "--out", str(tmp_path / "b"), "--size", "16"]
    result = CliRunner().invoke(wrap, [*arguments, "--head", "none"])
    assert isinstance(result.exception, CheckFailed)
    assert not (tmp_path / "b").exists()
