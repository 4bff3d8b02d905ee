"""A half-precision graph in single precision: processors compute no faster in halves, and ONNX Runtime's fusions of
half-precision attention have crashed the process."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from nonneg_training.onnx_backbone.onnx_graph import subgraphs

TYPES = ("to", "dtype")  # the attributes of operators that name an element type


def to_float32(model: ModelProto) -> ModelProto:
    """Return a copy that computes in float32 what it computed in float16."""
    copy = ModelProto()
    copy.CopyFrom(model)
    _graph(copy.graph)
    for function in copy.functions:
        _nodes(function.node)
        _values(function.value_info)
    return copy


def _graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _tensor(tensor)
    _values([*graph.input, *graph.output, *graph.value_info])
    _nodes(graph.node)


def _nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _tensor(attribute.t)
            elif attribute.name in TYPES and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.FLOAT
        for graph in subgraphs(node):
            _graph(graph)


def _values(values: Iterable[ValueInfoProto]) -> None:
    for value in values:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT16:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
