"""An ONNX file in memory, with nothing but its graph; a half-precision one in single precision."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from nonneg_core.errors import DataInvalid
from nonneg_training.onnx_backbone import CHECKPOINTS, TAKE_OVER

IR_VERSION = 10  # what ONNX Runtime 1.20 and later read
PRODUCER = "nonneg"


def load_graph(path: Path) -> ModelProto:
    """Return an ONNX file as a model, its weights within."""
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except OSError as error:
        raise DataInvalid(
            f"{path} cannot be read ({error.strerror})", fix="check the path of the ONNX file and its permissions"
        ) from error
    except Exception as error:  # protobuf's and onnx's errors share no base
        fix = TAKE_OVER if path.suffix.lower() in CHECKPOINTS else "export it again"
        raise DataInvalid(f"{path} is not a valid ONNX model ({_first_line(error)})", fix=fix) from error
    return model


def stripped(model: ModelProto) -> ModelProto:
    """Return a copy without doc strings, metadata and stack traces: exporters leave local paths in them."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for field in ("producer_version", "domain", "model_version", "doc_string", "metadata_props"):
        copy.ClearField(field)
    copy.producer_name = PRODUCER
    copy.ir_version = min(copy.ir_version, IR_VERSION)
    _strip(copy.graph)
    for function in copy.functions:
        function.ClearField("doc_string")
        function.ClearField("metadata_props")
        function.ClearField("value_info")
        _strip_nodes(function.node)
    return copy


def _strip(graph: GraphProto) -> None:
    for field in ("doc_string", "metadata_props", "value_info", "quantization_annotation"):
        graph.ClearField(field)
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.ClearField("doc_string")
        value.ClearField("metadata_props")
    _strip_nodes(graph.node)


def _strip_nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
        for subgraph in subgraphs(node):
            _strip(subgraph)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """Return the bodies of an If, a Loop or a Scan."""
    one = [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]
    return one + [g for a in node.attribute if a.type == AttributeProto.GRAPHS for g in a.graphs]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# A half-precision graph in single precision: processors compute no faster in halves, and ONNX Runtime's fusions of
# half-precision attention have crashed the process.

FLOAT_TYPES = ("to", "dtype")  # the attributes of operators that name an element type


def to_float32(model: ModelProto) -> ModelProto:
    """Return a copy that computes in float32 what it computed in float16."""
    copy = ModelProto()
    copy.CopyFrom(model)
    _widen_graph(copy.graph)
    for function in copy.functions:
        _widen_nodes(function.node)
        _widen_values(function.value_info)
    return copy


def _widen_graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    _widen_values([*graph.input, *graph.output, *graph.value_info])
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.name in FLOAT_TYPES and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.FLOAT
        for graph in subgraphs(node):
            _widen_graph(graph)


def _widen_values(values: Iterable[ValueInfoProto]) -> None:
    for value in values:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT16:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
