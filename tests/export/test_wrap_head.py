"""`nonneg wrap` with the analytic head: what it writes, what it costs, and what it warns of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import ModelProto, TensorProto, helper, numpy_helper

from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import unit
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_export.checks.agreement import held_out, shared_neighbours
from nonneg_export.commands.wrap import wrap
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.bundle.head_file import read_head, read_spread
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

SIDE, WIDTH = 16, 24
KERNEL = np.random.default_rng(0).normal(size=(WIDTH, 3, 4, 4)).astype(np.float32)


def encoder(*, relu: bool = False, shift: float = 0.0) -> ModelProto:
    """A patch embedding, averaged: signed features, or with a ReLU on each patch such that are not."""
    nodes = [helper.make_node("Conv", ["image", "kernel", "bias"], ["map"], strides=[4, 4])]
    if relu:
        nodes.append(helper.make_node("Relu", ["map"], ["above"]))
    nodes += [
        helper.make_node("GlobalAveragePool", ["above" if relu else "map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    weights = {"kernel": KERNEL, "bias": np.full(WIDTH, shift, np.float32)}
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", WIDTH])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def wrapped(model: ModelProto, photos: Path, place: Path, *words: str) -> Result:
    onnx.save(model, place / "encoder.onnx")
    given = [str(place / "encoder.onnx"), "--size", str(SIDE), "--calibrate", str(photos), "--out", str(place / "b")]
    return CliRunner().invoke(wrap, [*given, *words])


def answers(bundle: Bundle, photos: Path) -> np.ndarray:
    pixels = np.stack([load_pixels(path, bundle.manifest.view)[0] for path in find_photos(photos).paths])
    return Session(bundle.encoder).run(pixels)


@pytest.mark.parametrize(("relu", "takes"), [(False, "directions"), (True, "roots")])
def test_any_features_get_a_head_in_a_file_of_its_own(
    relu: bool, takes: str, labelled: Path, held_out: Path, tmp_path: Path
) -> None:
    result = wrapped(encoder(relu=relu), labelled, tmp_path, "--evaluate", str(held_out))
    assert result.exit_code == 0, result.output
    bundle = open_bundle(tmp_path / "b")
    manifest = bundle.manifest
    assert manifest.head is not None
    assert (manifest.head.takes, manifest.dimensions) == (takes, 2 * WIDTH)
    assert {"head.safetensors", "spread.safetensors", "encoder.onnx"} <= manifest.files.keys()
    z = answers(bundle, labelled)
    assert z.min() >= 0
    assert 0.4 < np.mean(manifest.columns.frequency) < 0.6
    assert "raw features" in result.output
    assert "nearest 1 kept" in result.output


def test_the_head_in_the_file_is_what_the_graph_computes(labelled: Path, tmp_path: Path) -> None:
    assert wrapped(encoder(), labelled, tmp_path).exit_code == 0
    bundle = open_bundle(tmp_path / "b")
    head = read_head(bundle.path / "head.safetensors")
    pixels = np.stack([load_pixels(path, bundle.manifest.view)[0] for path in find_photos(labelled).paths])
    scaled = ((pixels / 255 - Scaling().mean) / Scaling().std).reshape(-1, 4, 4, 4, 4, 3)  # (n, row, y, column, x, rgb)
    features = np.einsum("nrycxk,dkyx->nd", scaled, KERNEL).astype(np.float32) / 16
    np.testing.assert_allclose(answers(bundle, labelled), head.embed(unit(features)), atol=2e-3)
    spread = read_spread(bundle.path / "spread.safetensors")
    fitted = unit(features[~held_out(len(features))])
    np.testing.assert_allclose(spread.mean, fitted.mean(axis=0), atol=1e-5)
    assert spread.count == len(fitted)


def test_a_trained_head_differs_from_the_computed_one_in_its_first_columns(labelled: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    heads, counts = [], []
    for name in ("analytic", "train"):
        result = wrapped(encoder(), labelled, tmp_path, "--head", name, "--replace")
        assert result.exit_code == 0, result.output
        bundle = open_bundle(tmp_path / "b")
        assert bundle.manifest.head is not None
        counts.append(bundle.manifest.head.trained)
        heads.append(read_head(bundle.path / "head.safetensors"))
    assert counts == [0, 2 * WIDTH // 4]
    changed = (heads[0].weight != heads[1].weight).any(axis=0)
    assert changed.tolist() == [i < counts[1] for i in range(2 * WIDTH)]
    assert np.isfinite(heads[1].weight).all()
    assert "the first 12 columns trained" in result.output
    reordered = wrapped(encoder(), labelled, tmp_path, "--head", "train", "--rank-by", "variance", "--replace")
    assert reordered.exit_code == 0, reordered.output


def test_fewer_dimensions_and_another_order_are_cut_from_the_head_itself(labelled: Path, tmp_path: Path) -> None:
    result = wrapped(encoder(), labelled, tmp_path, "--dimensions", "10", "--rank-by", "frequency")
    assert result.exit_code == 0, result.output
    bundle = open_bundle(tmp_path / "b")
    assert read_head(bundle.path / "head.safetensors").weight.shape == (WIDTH, 10)
    assert sorted(bundle.manifest.columns.frequency, reverse=True) == list(bundle.manifest.columns.frequency)


def test_the_fingerprint_names_the_head(labelled: Path, tmp_path: Path) -> None:
    found = []
    for limit in ("60", "40"):
        assert wrapped(encoder(), labelled, tmp_path, "--limit", limit, "--replace").exit_code == 0
        found.append(open_bundle(tmp_path / "b").manifest)
    assert found[0].files["encoder.onnx"] == found[1].files["encoder.onnx"]
    assert found[0].fingerprint != found[1].fingerprint


def test_relu_on_signed_features_is_said_with_what_it_drops(labelled: Path, tmp_path: Path) -> None:
    result = wrapped(encoder(), labelled, tmp_path, "--relu")
    assert result.exit_code == 0, result.output
    dropped = re.search(r"drops what is below zero, (\d+)% of the features' squares", result.stderr)
    assert dropped is not None
    assert 20 < int(dropped[1]) < 80
    quiet = wrapped(encoder(relu=True), labelled, tmp_path, "--relu", "--replace")
    assert quiet.exit_code == 0
    assert "drops" not in quiet.stderr


def test_a_result_that_is_neither_sparse_nor_shortenable_is_told_so(labelled: Path, tmp_path: Path) -> None:
    """Features with all that tells photos apart in the last columns, and a constant in the others."""
    model = encoder(shift=100.0)
    flat = KERNEL.copy()
    flat[:20] = 0
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(flat, "kernel"))
    result = wrapped(model, labelled, tmp_path, "--head", "none", "--rank-by", "frequency")
    assert result.exit_code == 0, result.output
    assert "neither sparse nor shortenable: 100% of the entries are active" in result.stderr
    good = wrapped(model, labelled, tmp_path, "--replace")
    assert good.exit_code == 0, good.output
    assert "neither sparse" not in good.stderr


@pytest.mark.parametrize("words", [("--centre",), ("--relu",)])
def test_a_step_that_the_head_already_takes_is_refused(words: tuple[str, ...], labelled: Path, tmp_path: Path) -> None:
    result = wrapped(encoder(), labelled, tmp_path, "--head", "analytic", *words)
    assert isinstance(result.exception, ConfigInvalid)
    assert "or say --head none" in str(result.exception)


def test_kept_counts_what_a_slow_look_counts() -> None:
    rng = np.random.default_rng(0)
    features, z = rng.normal(size=(30, 8)), rng.random((30, 12)) * (rng.random((30, 12)) > 0.5)
    found = shared_neighbours(features.astype(np.float32), z.astype(np.float32), "noise")
    assert found is not None
    for row in found.rows:
        short = z[:, : row.dimensions]
        shares = []
        for i in range(30):
            near = []
            for rows in (features, short):
                lengths = np.linalg.norm(rows, axis=1)
                cosines = rows @ rows[i] / np.maximum(lengths * lengths[i], 1e-12)
                near.append(set(sorted((j for j in range(30) if j != i), key=lambda j: (-cosines[j], j))[:3]))
            shares.append(len(near[0] & near[1]) / 3)
        assert row.neighbours == pytest.approx(np.mean(shares), abs=1e-3)


def test_a_fifth_of_the_photos_is_held_out_evenly() -> None:
    assert held_out(10).sum() == 0
    assert np.flatnonzero(held_out(50)).tolist() == [0, 5, 10, 15, 20, 25, 30, 35, 40, 45]
    assert held_out(100_000).sum() == 500
