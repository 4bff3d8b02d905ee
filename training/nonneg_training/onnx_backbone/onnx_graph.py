"""An ONNX file in memory, with nothing but its graph."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from nonneg_core.errors import DataInvalid

IR_VERSION = 10  # what ONNX Runtime 1.20 and later read
PRODUCER = "nonneg"


def load(path: Path) -> ModelProto:
    """Return an ONNX file as a model, its weights within."""
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except OSError as error:
        raise DataInvalid(
            f"{path} cannot be read ({error.strerror})", fix="check the path of the ONNX file and its permissions"
        ) from error
    except Exception as error:  # protobuf's and onnx's errors share no base
        raise DataInvalid(f"{path} is not a valid ONNX model ({_first_line(error)})", fix="export it again") from error
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
