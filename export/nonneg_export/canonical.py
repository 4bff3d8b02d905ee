"""ONNX graphs in one canonical form: the same encoder gives the same bytes, and the file tells no tales."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from nonneg_client.errors import DataInvalid
from nonneg_export.bundle import storing

IR_VERSION = 10  # what ONNX Runtime 1.20 and later read
PRODUCER = "nonneg"


def canonical(model: ModelProto) -> ModelProto:
    """A copy that names its values by their place in the graph and carries nothing but the graph."""
    model = stripped(model)
    graph = model.graph
    _drop_unused_initializers(graph)
    if not any(_subgraphs(node) for node in graph.node):  # a subgraph may capture any outer name
        _rename(graph)
    return model


def stripped(model: ModelProto) -> ModelProto:
    """A copy without doc strings, metadata and stack traces: exporters leave local paths in them."""
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


def save(model: ModelProto, path: Path) -> None:
    """Write it in one file, the same bytes for the same model."""
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model.SerializeToString(deterministic=True))


def load(path: Path) -> ModelProto:
    """An ONNX file as a model, its weights within."""
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf's, onnx's and the operating system's errors share no base
        raise DataInvalid(f"{path} is no valid ONNX model ({_first_line(error)})", fix="export it again") from error
    return model


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
        for subgraph in _subgraphs(node):
            _strip(subgraph)


def _subgraphs(node: NodeProto) -> list[GraphProto]:
    one = [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]
    return one + [g for a in node.attribute if a.type == AttributeProto.GRAPHS for g in a.graphs]


def _drop_unused_initializers(graph: GraphProto) -> None:
    if any(_subgraphs(node) for node in graph.node):
        return
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    kept = sorted((t for t in graph.initializer if t.name in used), key=lambda t: t.name)
    graph.ClearField("initializer")
    graph.initializer.extend(kept)


def _rename(graph: GraphProto) -> None:
    """Initializers become w0, w1, …, other values v0, v1, …, in the order in which the nodes use them."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    names = {value.name: value.name for value in (*graph.input, *graph.output)}
    weight_order: list[str] = []
    for i, node in enumerate(graph.node):
        for name in node.input:
            if name in weights and name not in names:
                names[name] = f"w{len(weight_order)}"
                weight_order.append(name)
        for name in node.output:
            if name and name not in names:
                names[name] = f"v{i}" if name == node.output[0] else f"v{i}_{len(names)}"
        node.name = f"{node.op_type}_{i}"
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    rest = [name for name in weights if name not in names]
    ordered = [weights[name] for name in (*weight_order, *rest)]
    for tensor in ordered:
        tensor.name = names.get(tensor.name, tensor.name)
    tensors = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in ordered]
    graph.ClearField("initializer")
    graph.initializer.extend(tensors)
    graph.name = "encoder"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
