"""Weights stored in half the space: float16 in the file, widened once when it is loaded, computed with as float32."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nonneg_export.graphs.canonical import canonical

SMALLEST = 256  # entries of a tensor worth storing as float16
LIMIT = float(np.finfo(np.float16).max)


def store_fp16(model: ModelProto) -> ModelProto:
    """Return the encoder with its matrices and kernels stored as float16. Biases are few, and stay as they are."""
    copy = ModelProto()
    copy.CopyFrom(model)
    casts = []
    for tensor in copy.graph.initializer:
        if not _worth_it(tensor):
            continue
        name, stored = tensor.name, f"{tensor.name}/fp16"
        values = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(values, stored))
        casts.append(helper.make_node("Cast", [stored], [name], to=TensorProto.FLOAT))
    _set_nodes(copy, [*casts, *copy.graph.node])
    return canonical(copy)


def restore_fp32(model: ModelProto) -> ModelProto:
    """Return the same encoder with the float16 weights written out as float32: what graph editing works on."""
    copy = ModelProto()
    copy.CopyFrom(model)
    stored = {tensor.name: tensor for tensor in copy.graph.initializer if tensor.data_type == TensorProto.FLOAT16}
    kept = []
    for node in copy.graph.node:
        if node.op_type == "Cast" and node.input[0] in stored and node.attribute[0].i == TensorProto.FLOAT:
            values = numpy_helper.to_array(stored[node.input[0]]).astype(np.float32)
            copy.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            kept.append(node)
    _set_nodes(copy, kept)
    return canonical(copy)


def is_lossless(model: ModelProto) -> bool:
    """Return whether float16 holds all that it would store exactly: the weights of a half-precision encoder."""
    worth = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer if _worth_it(tensor)]
    return bool(worth) and all(np.array_equal(values, values.astype(np.float16)) for values in worth)


def _worth_it(tensor: TensorProto) -> bool:
    if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) < 2 or int(np.prod(tensor.dims)) < SMALLEST:
        return False
    return bool(np.abs(numpy_helper.to_array(tensor)).max() <= LIMIT)


def _set_nodes(model: ModelProto, nodes: list[NodeProto]) -> None:
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]  # clearing the field ends the old ones
    model.graph.ClearField("node")
    model.graph.node.extend(kept)
