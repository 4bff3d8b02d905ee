"""ONNX graphs in one canonical form: the same encoder gives the same bytes, without local paths or metadata."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto

from nonneg_runtime.bundle import storing
from nonneg_training.onnx_backbone.onnx_graph import stripped, subgraphs

KEPT = "head."  # initializers of these names keep them: they may be moved into a file of their own


def canonical(model: ModelProto) -> ModelProto:
    """Return a copy that names its values by their place in the graph and carries nothing but the graph."""
    model = stripped(model)
    graph = model.graph
    _drop_unused_initializers(graph)
    if not any(subgraphs(node) for node in graph.node):  # a subgraph may capture any outer name
        _rename(graph)
    return model


def save(model: ModelProto, path: Path) -> None:
    """Write it in one file, the same bytes for the same model."""
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_bytes(model.SerializeToString(deterministic=True))
        except OSError:
            path.unlink(missing_ok=True)  # a full disk has no use for half a model
            raise


def _drop_unused_initializers(graph: GraphProto) -> None:
    if any(subgraphs(node) for node in graph.node):
        return
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    kept = sorted((t for t in graph.initializer if t.name in used), key=lambda t: t.name)
    graph.ClearField("initializer")
    graph.initializer.extend(kept)


def _rename(graph: GraphProto) -> None:
    """Rename initializers to w0, w1, …, other values to v0, v1, …, in the order in which the nodes use them."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    names = {value.name: value.name for value in (*graph.input, *graph.output)}
    names |= {name: name for name in weights if name.startswith(KEPT)}
    weight_order: list[str] = list(filter(names.__contains__, weights))
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
