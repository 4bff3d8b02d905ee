"""The head in a file of its own: read back, read by the graph, and replaced there without a tool for graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from nonneg_core.errors import BundleInvalid, DataInvalid
from nonneg_core.files import safetensors_file
from nonneg_export.graphs.canonical import canonical, save
from nonneg_export.graphs.head_layers import detach_head, with_root_head
from nonneg_runtime.bundle.external_data import external_files
from nonneg_runtime.bundle.head_file import HEAD, metadata_of, read_head, read_spread, write_head, write_spread
from nonneg_runtime.heads.head import Head
from nonneg_runtime.heads.moments import spread
from nonneg_runtime.inference.onnx_session import Session


def a_head(seed: int = 0, features: int = 3, dimensions: int = 5) -> Head:
    """Weights that float16 holds exactly."""
    g = np.random.default_rng(seed)
    weight = g.integers(-8, 8, (features, dimensions)).astype(np.float32) / 8
    return Head(weight, g.normal(size=dimensions).astype(np.float32), 0.6)


def mean_colour() -> ModelProto:
    """uint8 (batch, 4, 4, 3) -> the mean of each channel, which is >= 0."""
    nodes = [
        helper.make_node("Cast", ["pixels"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats", "axes"], ["embedding"], keepdims=0),
    ]
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", 4, 4, 3])
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", 3])
    axes = helper.make_tensor("axes", TensorProto.INT64, [2], [1, 2])
    graph = helper.make_graph(nodes, "encoder", [pixels], [embedding], [axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    model = canonical(with_root_head(mean_colour(), a_head()))
    assert detach_head(model, tmp_path, metadata_of(a_head()))
    save(model, tmp_path / "encoder.onnx")
    return tmp_path / "encoder.onnx"


def pixels() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (7, 4, 4, 3)).astype(np.uint8)


def expected(head: Head) -> np.ndarray:
    return head.embed(np.sqrt(pixels().astype(np.float32).mean(axis=(1, 2))))


def test_the_graph_answers_what_the_head_answers_to_roots(encoder: Path) -> None:
    assert external_files(encoder) == {HEAD}
    found = Session(encoder).run(pixels())
    np.testing.assert_allclose(found, expected(a_head()), rtol=1e-4)
    assert 0 < (found > 0).mean() < 1


def test_another_head_written_in_its_place_is_what_the_graph_then_answers(encoder: Path) -> None:
    other = a_head(seed=7)
    write_head(other, encoder.parent / HEAD)
    np.testing.assert_allclose(Session(encoder).run(pixels()), expected(other), rtol=1e-4)


def test_a_head_is_read_back(tmp_path: Path) -> None:
    write_head(a_head(), tmp_path / HEAD)
    found = read_head(tmp_path / HEAD)
    assert (found.weight == a_head().weight).all()
    assert (found.bias == a_head().bias).all()
    assert found.power == 0.6


@pytest.mark.parametrize("damage", ["cut", "other", "absent"])
def test_a_file_that_holds_no_head_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / HEAD
    if damage == "other":
        safetensors_file.write(path, {"bias": np.ones(3, np.float32)}, {})
    elif damage == "cut":
        write_head(a_head(), path)
        path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BundleInvalid, match="holds no head"):
        read_head(path)


def test_statistics_are_read_back(tmp_path: Path) -> None:
    of = spread(np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32))
    write_spread(of, tmp_path / "spread")
    found = read_spread(tmp_path / "spread")
    np.testing.assert_allclose(found.covariance, of.covariance, atol=2e-3)
    with pytest.raises(BundleInvalid, match="statistics"):
        read_spread(tmp_path / "absent")


def test_a_head_for_other_features_is_refused() -> None:
    with pytest.raises(DataInvalid, match="4 features does not fit this backbone's 3"):
        with_root_head(mean_colour(), a_head(features=4))
