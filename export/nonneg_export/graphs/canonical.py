"""ONNX graphs as they are saved: in one canonical form, weights in half the space, without tools' chatter."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nonneg_runtime.bundle.bundle_folder import storing
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
    tensors = sorted((t for t in graph.initializer if t.name in used), key=lambda t: t.name)
    graph.ClearField("initializer")
    graph.initializer.extend(tensors)


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


# Weights stored in half the space: float16 in the file, widened once when it is loaded, computed with as float32.

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
    remaining = []
    for node in copy.graph.node:
        if node.op_type == "Cast" and node.input[0] in stored and node.attribute[0].i == TensorProto.FLOAT:
            values = numpy_helper.to_array(stored[node.input[0]]).astype(np.float32)
            copy.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            remaining.append(node)
    _set_nodes(copy, remaining)
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
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]  # clearing the field ends the old ones
    model.graph.ClearField("node")
    model.graph.node.extend(copies)


# Silence for tools that print, log and warn about their own insides; their errors still come through.


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Silence standard output, warnings, and log records below errors."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
