"""Layers behind an ONNX encoder: a linear head somebody brings, or the projector that a run trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from torch import nn

from nonneg_core.errors import DataInvalid
from nonneg_export.columns import activate, width
from nonneg_runtime.graph import OUTPUT
from nonneg_training.encoder import Encoder

Weight = NDArray[np.float32]
OPERATORS = {"relu": "Relu", "rep_relu": "Relu", "sigmoid": "Sigmoid", "softplus": "Softplus", "exp": "Exp"}


def with_head(model: ModelProto, weight: NDArray[Any], bias: NDArray[Any] | None) -> ModelProto:
    """A copy whose features go through a linear layer: weight (K, D), bias (K,)."""
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


def with_projector(model: ModelProto, encoder: Encoder) -> ModelProto:
    """A copy with all that `encoder` has behind its backbone."""
    for layer in encoder.hidden:
        model = with_head(model, *_arrays(layer)) if isinstance(layer, nn.Linear) else activate(model)
    model = with_head(model, *folded(*encoder.output_layers()))
    return activate(model, OPERATORS[encoder.activation])


def folded(linear: nn.Linear, norm: nn.BatchNorm1d | None) -> tuple[Weight, Weight]:
    """Weight and bias of the linear layer that does what both do in evaluation."""
    weight, bias = _arrays(linear)
    if norm is None:
        return weight, bias
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight.detach().numpy() / np.sqrt(norm.running_var.numpy() + norm.eps)  # (D,)
    shift = norm.bias.detach().numpy() - norm.running_mean.numpy() * scale
    return (weight * scale[:, None]).astype(np.float32), (bias * scale + shift).astype(np.float32)


def _arrays(linear: nn.Linear) -> tuple[Weight, Weight]:
    return linear.weight.detach().numpy(), linear.bias.detach().numpy()
