"""A head trained on an ONNX encoder: cached through ONNX Runtime, exported with that encoder as one bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from nonneg_core.errors import CheckpointInvalid, ConfigInvalid, DataInvalid, NonnegError
from nonneg_core.pixels.view import View
from nonneg_export.assembly.run_draft import OPERATORS, with_projector
from nonneg_export.commands.export import export
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.bundle.head_file import read_head
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.loop.training_checkpoint import load_encoder, run_settings
from nonneg_training.onnx_backbone.onnx_features import features_graph
from nonneg_training.setup.run_settings import Onnx
from nonneg_training.train_command import train

SIZE = 16
KERNEL = np.random.default_rng(0).normal(size=(12, 3, 4, 4)).astype(np.float32)
MEAN, STD = np.array((0.5, 0.4, 0.3)), np.array((0.2, 0.25, 0.3))


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """Patches of 4 x 4 pixels, averaged: float NCHW in, 12 features out."""
    weights = [numpy_helper.from_array(KERNEL, "kernel")]
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["map"], strides=[4, 4]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, SIZE, SIZE])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 12])
    graph = helper.make_graph(nodes, "encoder", [image], [features], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "e.onnx")
    return tmp_path / "e.onnx"


@pytest.fixture
def preprocessor(tmp_path: Path) -> Path:
    said = {"size": {"shortest_edge": 20}, "crop_size": SIZE, "resample": 2}
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({**said, "image_mean": MEAN.tolist(), "image_std": STD.tolist()}))
    return path


def by_hand(pixels: np.ndarray) -> np.ndarray:
    """The encoder's features, slowly: (batch, 12)."""
    x = ((pixels / 255.0 - MEAN) / STD).transpose(0, 3, 1, 2)
    places = [(i, j) for i in range(0, SIZE, 4) for j in range(0, SIZE, 4)]
    found = [np.einsum("bchw,kchw->bk", x[:, :, i : i + 4, j : j + 4], KERNEL) for i, j in places]
    return np.mean(found, axis=0)


def run(encoder: Path, data: Path, out: Path, *others: str) -> NonnegError | None:
    arguments = ["--method", "head", "--backbone", str(encoder), "--data", str(data), "--out", str(out)]
    arguments += ["--batch", "10", "--epochs", "2", "--dimensions", "24", "--set", f"head.cache={out.parent / 'cache'}"]
    found = CliRunner().invoke(train, [*arguments, "--set", "health.dead_share=1", *others]).exception
    assert found is None or isinstance(found, NonnegError), found
    return found


PIXELS = np.random.default_rng(1).integers(0, 256, (5, SIZE, SIZE, 3), dtype=np.uint8)


def test_the_whole_way_from_an_onnx_encoder_to_a_verified_bundle(
    encoder: Path, preprocessor: Path, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert run(encoder, labelled, out, "--preprocessor", str(preprocessor), "--set", "loss.lengths=[6]") is None
    view = View(size=SIZE, crop=0.8, interpolation="bilinear")
    model = load_encoder(out)
    assert model.view == view
    with torch.inference_mode():
        features, z = model.features(torch.from_numpy(PIXELS)), model(torch.from_numpy(PIXELS)).numpy()
    np.testing.assert_allclose(features, by_hand(PIXELS), atol=2e-5)
    (cached,) = (tmp_path / "cache").glob("*/features.npy")
    assert np.load(cached).shape == (1, 60, 12)
    result = CliRunner().invoke(export, [str(out), "--calibrate", str(labelled), "--out", str(tmp_path / "b")])
    assert result.exit_code == 0, result.output
    bundle = open_bundle(tmp_path / "b")
    manifest = bundle.manifest
    assert (manifest.view, manifest.dimensions, manifest.calibration.ranked_by) == (view, 24, "nested")
    assert "torch" in {check.name for check in manifest.checks}
    assert str(tmp_path) not in manifest.to_json(), "a bundle tells nothing of the machine it was made on"
    rows, order = Session(bundle.encoder).run(PIXELS), list(manifest.columns.original)
    np.testing.assert_allclose(rows, z[:, order], rtol=2e-3, atol=2e-3)  # a head's file holds float16
    assert manifest.head is not None
    assert manifest.head.trained == 24
    head = read_head(bundle.path / manifest.head.file)
    np.testing.assert_allclose(head.weight, model.output.weight.detach().numpy().T[:, order], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(rows, head.embed(by_hand(PIXELS)), atol=2e-5)


def test_a_head_without_an_activation_is_exported_with_a_relu_behind_it_alone(
    encoder: Path, labelled: Path, tmp_path: Path
) -> None:
    out, to = tmp_path / "run", ["--calibrate", str(labelled), "--out", str(tmp_path / "b")]
    losses = ("--set", "head.neighbours=0", "--set", "head.contrastive=1", "--set", "head.views=2")
    assert run(encoder, labelled, out, *losses, "--set", "model.activation=identity") is None
    refused = CliRunner().invoke(export, [str(out), *to])
    assert isinstance(refused.exception, NonnegError)
    assert "--relu" in str(refused.exception.fix)
    assert not (tmp_path / "b").exists()
    assert CliRunner().invoke(export, [str(out), "--relu", *to]).exit_code == 0
    bundle = open_bundle(tmp_path / "b")
    with torch.inference_mode():
        z = load_encoder(out)(torch.from_numpy(PIXELS)).relu().numpy()
    rows = Session(bundle.encoder).run(PIXELS)
    np.testing.assert_allclose(rows, z[:, list(bundle.manifest.columns.original)], rtol=2e-3, atol=2e-3)


def test_the_cache_is_shared_by_heads_on_one_encoder_and_not_with_another(
    encoder: Path, labelled: Path, tmp_path: Path
) -> None:
    def caches() -> int:
        return len(list((tmp_path / "cache").iterdir()))

    assert run(encoder, labelled, tmp_path / "a") is None
    assert run(encoder, labelled, tmp_path / "b", "--dimensions", "8") is None
    assert caches() == 1
    assert run(encoder, labelled, tmp_path / "c", "--set", "onnx.mean=[0.1, 0.1, 0.1]") is None
    assert caches() == 2
    other = onnx.load(encoder)
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(KERNEL * 2, "kernel"))
    onnx.save(other, encoder)
    assert run(encoder, labelled, tmp_path / "d") is None
    assert caches() == 3
    with pytest.raises(CheckpointInvalid, match="is not the encoder that this head was trained on"):
        load_encoder(tmp_path / "a")
    assert run_settings(tmp_path / "d").onnx.digest != run_settings(tmp_path / "a").onnx.digest
    encoder.unlink()
    with pytest.raises(DataInvalid, match=r"e\.onnx cannot be read"):
        load_encoder(tmp_path / "d")


@pytest.mark.parametrize("activation", OPERATORS)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_every_projector_becomes_the_same_graph(
    activation: str, batch_norm: bool, encoder: Path, tmp_path: Path
) -> None:
    from nonneg_training.onnx_backbone.onnx_features import OnnxBackbone

    torch.manual_seed(0)
    how = Onnx()
    model = EncoderModule(
        OnnxBackbone(encoder, how, SIZE),
        View(size=SIZE),
        dimensions=9,
        hidden=(7, 5),
        activation=activation,
        batch_norm=batch_norm,
    )
    model(torch.from_numpy(PIXELS))  # in training mode: the statistics move
    model.eval()
    onnx.save(with_projector(features_graph(encoder, how, SIZE), model), tmp_path / "whole.onnx")
    with torch.inference_mode():
        expected = model(torch.from_numpy(PIXELS)).numpy()
    np.testing.assert_allclose(Session(tmp_path / "whole.onnx").run(PIXELS), expected, atol=2e-5)


@pytest.mark.parametrize(
    ("others", "kind", "message"),
    [
        (["--method", "ncl"], ConfigInvalid, "cannot learn.*use method=head"),
        (["--set", "model.pretrained=DEFAULT"], ConfigInvalid, "brings its own weights"),
        (["--size", "32"], ConfigInvalid, "takes 16 x 16 pixels, not 32"),
        (["--set", "onnx.output=x"], ConfigInvalid, "no output 'x'"),
        (["--backbone", "nowhere.onnx"], DataInvalid, r"nowhere\.onnx cannot be read"),
        (["--preprocessor", "nowhere.json"], DataInvalid, r"nowhere\.json cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(
    others: list[str], kind: type[NonnegError], message: str, encoder: Path, labelled: Path, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        raise run(encoder, labelled, tmp_path / "run", *others) or AssertionError("it ran")
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_an_onnx_model_is_refused(labelled: Path, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff\xff not a model")
    with pytest.raises(DataInvalid, match="is not an ONNX model"):
        raise run(tmp_path / "m.onnx", labelled, tmp_path / "run") or AssertionError("it ran")
