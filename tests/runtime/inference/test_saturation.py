"""An int8 form on a processor whose 8-bit products saturate: its self-test has to find out.

Without VNNI, x86 multiplies unsigned by signed bytes in pairs and cuts each pair's sum off at 16 bits. What such a
processor answers is computed here, operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, numpy_helper

from nonneg_core.errors import CheckFailed
from nonneg_core.pixels.view import Pixels
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.runner import OUTPUT, check_golden, golden_cosine
from nonneg_runtime.inference.variants import as_variant

Array = NDArray[Any]
Product = Callable[[Array, Array], Array]


def exact(x: Array, w: Array) -> Array:
    return x @ w


def saturating(x: Array, w: Array) -> Array:
    """(n, k) unsigned times (k, m) signed bytes, two products at a time."""
    x, w = (np.pad(a, pad) for a, pad in ((x, ((0, 0), (0, x.shape[1] % 2))), (w, ((0, len(w) % 2), (0, 0)))))
    total = np.zeros((len(x), w.shape[1]), dtype=np.int32)
    for k in range(0, x.shape[1], 2):
        total += np.clip(x[:, k, None] * w[k] + x[:, k + 1, None] * w[k + 1], -(2**15), 2**15 - 1)
    return total


class Interpreter:
    """A quantised encoder in numpy; the products of its convolutions' bytes are `product`."""

    providers = ("numpy",)

    def __init__(self, bundle: Bundle, product: Product) -> None:
        model = onnx.load(bundle.encoder)
        self.nodes = list(model.graph.node)
        self.weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.product = product

    def run(self, pixels: Pixels) -> NDArray[np.float32]:
        values: dict[str, Array] = {**self.weights, "pixels": pixels}
        stored: dict[str, tuple[Array, Array, Array]] = {}  # what a float was widened from: bytes, scale, zero point
        for node in self.nodes:
            inputs = [values[name] for name in node.input]
            options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "DequantizeLinear":
                stored[node.output[0]] = (inputs[0], inputs[1], inputs[2])
            if node.op_type == "Conv":
                values[node.output[0]] = self.convolved(node, inputs, options, stored)
            else:
                values[node.output[0]] = OPERATORS[node.op_type](*inputs, **options)
        return np.asarray(values[OUTPUT], dtype=np.float32)

    def convolved(self, node: NodeProto, inputs: list[Array], options: dict[str, Any], stored: Any) -> Array:
        x, w, bias = inputs
        top, left, bottom, right = options["pads"]
        around = ((0, 0), (0, 0), (top, bottom), (left, right))
        if options.get("group", 1) > 1:  # one channel each: nothing is added up in pairs
            windows = seen(np.pad(x, around), w.shape[2], options["strides"])
            return np.einsum("nchwij,cij->nchw", windows, w[:, 0], optimize=True) + bias[:, None, None]
        (q, scale, zero), (wq, w_scale, _) = (stored[name] for name in node.input[:2])
        windows = seen(np.pad(q.astype(np.int32), around, constant_values=int(zero)), w.shape[2], options["strides"])
        n, _, height, width, _, _ = windows.shape
        rows = windows.transpose(0, 2, 3, 4, 5, 1).reshape(n * height * width, -1)
        matrix = wq.astype(np.int32).transpose(2, 3, 1, 0).reshape(-1, len(w))
        sums = self.product(rows, matrix) - int(zero) * matrix.sum(axis=0)
        scaled = sums * (float(scale) * w_scale.astype(np.float64)) + bias
        return scaled.reshape(n, height, width, -1).transpose(0, 3, 1, 2).astype(np.float32)


def seen(x: Array, side: int, strides: list[int]) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3))
    return windows[:, :, :: strides[0], :: strides[1]]


def quantised(x: Array, scale: Array, zero: Array) -> Array:
    bounds = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / scale) + zero, bounds.min, bounds.max).astype(zero.dtype)


def dequantised(q: Array, scale: Array, zero: Array, axis: int = 1) -> Array:
    shape = [-1 if i == axis and scale.size > 1 else 1 for i in range(q.ndim)]
    return (q.astype(np.float32) - zero.reshape(shape).astype(np.float32)) * scale.reshape(shape)


OPERATORS: dict[str, Callable[..., Array]] = {
    "QuantizeLinear": quantised,
    "DequantizeLinear": dequantised,
    "Cast": lambda x, to: x.astype(onnx.helper.tensor_dtype_to_np_dtype(to)),
    "Transpose": lambda x, perm: x.transpose(perm),
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Clip": np.clip,
    "ReduceMean": lambda x, axes, keepdims=1, **_: x.mean(axis=tuple(axes.tolist()), keepdims=bool(keepdims)),
    "Sqrt": np.sqrt,
    "MatMul": np.matmul,
    "Relu": lambda x: np.maximum(x, 0),
    "Greater": np.greater,
    "Where": np.where,
    "Pow": np.power,
}


@pytest.fixture(scope="module", params=["photo", pytest.param("photo-fast", marks=pytest.mark.slow)])
def form(request: pytest.FixtureRequest) -> Bundle:
    bundle = open_bundle(str(request.param))
    return as_variant(bundle, bundle.manifest.variants[0])


def test_other_rounding_passes_the_self_test(form: Bundle) -> None:
    assert check_golden(Interpreter(form, exact), form.manifest) > form.manifest.golden.tolerance


def test_saturating_arithmetic_fails_the_self_test(form: Bundle) -> None:
    wrong = Interpreter(form, saturating)
    assert golden_cosine(wrong, form.manifest) < form.manifest.golden.tolerance - 0.05
    with pytest.raises(CheckFailed, match="fails its self-test"):
        check_golden(wrong, form.manifest)
