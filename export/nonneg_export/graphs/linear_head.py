"""A linear head behind an ONNX encoder: its weight and bias become the last layer of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from nonneg_core.errors import DataInvalid
from nonneg_export.graphs.columns import width
from nonneg_runtime.graph import OUTPUT


def with_head(model: ModelProto, weight: NDArray[Any], bias: NDArray[Any] | None) -> ModelProto:
    """Return a copy whose features go through a linear layer: weight (K, D), bias (K,)."""
    columns = width(model)
    if weight.ndim != 2 or weight.shape[1] != columns or (bias is not None and bias.shape != weight.shape[:1]):
        raise DataInvalid(
            f"a head with weight {weight.shape} and bias {None if bias is None else bias.shape} does not fit "
            f"{columns} features",
            fix=f"give weight (K, {columns}) and bias (K,)",
            field="head",
        )
    copy = ModelProto()
    copy.CopyFrom(model)
    name = f"head_{len(copy.graph.node)}"
    for node in copy.graph.node:
        node.output[:] = [f"{name}/features" if output == OUTPUT else output for output in node.output]
    tensors = {f"{name}/weight": weight, f"{name}/bias": np.zeros(len(weight)) if bias is None else bias}
    for key, value in tensors.items():
        copy.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), key))
    copy.graph.node.append(helper.make_node("Gemm", [f"{name}/features", *tensors], [OUTPUT], transB=1))
    copy.graph.ClearField("output")
    copy.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", len(weight)]))
    return copy
