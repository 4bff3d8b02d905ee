from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

from nonneg_export.graphs.canonical import save
from nonneg_export.graphs.columns import activate, centre, select_columns, width
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import INPUT, OUTPUT


def answers(model: ModelProto, folder: Path, size: int = 16) -> NDArray[np.float32]:
    checker.check_model(model, full_check=True)
    save(model, folder / "m.onnx")
    pixels = np.random.default_rng(5).integers(0, 256, size=(3, size, size, 3), dtype=np.uint8)
    return Session(folder / "m.onnx").run(pixels)


def graph(nodes: list[object], weights: dict[str, NDArray[np.float32]], columns: int) -> ModelProto:
    """Nodes that lead from x, float (batch, 3, 16, 16), to the output."""
    front = [
        helper.make_node("Transpose", [INPUT], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["t"], ["x"], to=TensorProto.FLOAT),
    ]
    made = helper.make_graph(
        front + nodes,
        "g",
        [helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", 16, 16, 3])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", columns])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def conv_norm_pool() -> ModelProto:
    rng = np.random.default_rng(2)
    vectors = {name: rng.uniform(0.5, 2, size=6).astype(np.float32) for name in ("scale", "bias", "mean", "var", "cb")}
    weights = {"k": rng.normal(size=(6, 3, 3, 3)).astype(np.float32), **vectors}
    nodes = [
        helper.make_node("Conv", ["x", "k", "cb"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], [OUTPUT]),
    ]
    return graph(nodes, weights, 6)


def matmul_bias_norm() -> ModelProto:
    rng = np.random.default_rng(3)
    vectors = {name: rng.uniform(0.5, 2, size=6).astype(np.float32) for name in ("scale", "bias", "mean", "var")}
    weights = {
        "w": rng.normal(size=(3, 6)).astype(np.float32),
        "b": rng.normal(size=(1, 6)).astype(np.float32),
        **vectors,
    }
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], [OUTPUT]),
    ]
    return graph(nodes, weights, 6)


def shared_bias() -> ModelProto:
    """The last bias is also an addend elsewhere: permuting it in place would break the other reader."""
    rng = np.random.default_rng(4)
    weights = {"w": rng.normal(size=(6, 3)).astype(np.float32), "v": rng.normal(size=(6, 6)).astype(np.float32)}
    weights["b"] = rng.normal(size=6).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["h"], transB=1),
        helper.make_node("Gemm", ["h", "v", "b"], ["z"]),
        helper.make_node("Relu", ["z"], [OUTPUT]),
    ]
    return graph(nodes, weights, 6)


def softmax_tail() -> ModelProto:
    """A softmax mixes columns, so that nothing behind it can be permuted in the weights."""
    rng = np.random.default_rng(4)
    weights = {"w": rng.normal(size=(6, 3), scale=0.01).astype(np.float32)}
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["h"], transB=1),
        helper.make_node("Softmax", ["h"], [OUTPUT]),
    ]
    return graph(nodes, weights, 6)


GRAPHS = {"conv": conv_norm_pool, "matmul": matmul_bias_norm, "shared": shared_bias, "softmax": softmax_tail}


@pytest.mark.parametrize("name", GRAPHS)
def test_selected_columns_are_the_columns_of_the_original(name: str, tmp_path: Path) -> None:
    model = GRAPHS[name]()
    plain = answers(model, tmp_path)
    order = np.array([4, 0, 5, 1, 3, 2])
    np.testing.assert_allclose(answers(select_columns(model, order), tmp_path), plain[:, order], rtol=1e-6)
    few = select_columns(model, order[:2])
    assert width(few) == 2
    np.testing.assert_allclose(answers(few, tmp_path), plain[:, order[:2]], rtol=1e-6)


@pytest.mark.parametrize(("name", "gathers"), [("conv", 0), ("matmul", 0), ("shared", 1), ("softmax", 1)])
def test_weights_are_permuted_where_possible_and_columns_gathered_where_not(name: str, gathers: int) -> None:
    edited = select_columns(GRAPHS[name](), [5, 4, 3, 2, 1, 0])
    assert sum(node.op_type == "Gather" for node in edited.graph.node) == gathers


def test_selecting_twice_composes(tmp_path: Path) -> None:
    model = softmax_tail()
    plain = answers(model, tmp_path)
    twice = select_columns(select_columns(model, [4, 0, 5, 1]), [2, 0])
    np.testing.assert_array_equal(answers(twice, tmp_path), plain[:, [5, 4]])


def test_the_original_is_left_as_it_was(tiny: ModelProto) -> None:
    before = tiny.SerializeToString(deterministic=True)
    select_columns(tiny, range(23, -1, -1))
    centre(tiny, np.zeros(24, np.float32))
    activate(tiny)
    assert tiny.SerializeToString(deterministic=True) == before


def test_centring_subtracts_and_rectifies(tiny: ModelProto, tmp_path: Path) -> None:
    plain = answers(tiny, tmp_path)
    offset = plain.mean(axis=0)
    expected = np.maximum(plain - offset, 0)
    centred = centre(tiny, offset)
    np.testing.assert_array_equal(answers(centred, tmp_path), expected)
    order = np.arange(24)[::-1]
    np.testing.assert_array_equal(answers(select_columns(centred, order), tmp_path), expected[:, order])
