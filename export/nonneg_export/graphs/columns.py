"""Editing an encoder's last layers: choose and reorder its columns, centre them, switch ReLU on.

No torch and no checkpoint. The graph is walked back from its output to the layer that makes the columns. That
layer's rows are permuted, with everything between that holds one number a column (bias, batch norm, centre).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nonneg_core.arrays import Floats, Numbers
from nonneg_export.graphs.canonical import KEPT
from nonneg_runtime.inference.runner import OUTPUT

ACTIVATIONS = ("Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "Softplus", "Exp", "Gelu", "Tanh", "Identity", "Dropout")
POOLS = (
    "GlobalAveragePool",
    "GlobalMaxPool",
    "AveragePool",
    "MaxPool",
    "ReduceMean",
    "ReduceMax",
    "Flatten",
    "Squeeze",
)
PAIRWISE = ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu")

Edit = tuple[str, int]  # an initializer, and the axis of it that the columns lie on


def width(model: ModelProto) -> int:
    """Return d: the number of columns."""
    return int(model.graph.output[0].type.tensor_type.shape.dim[-1].dim_value)


def select_columns(model: ModelProto, order: Sequence[int] | NDArray[np.integer[Any]]) -> ModelProto:
    """Return a copy that emits the columns `order`, in that order: a permutation, or a choice of k of them."""
    chosen = np.asarray(order, dtype=np.int64)
    edited = ModelProto()
    edited.CopyFrom(model)
    edits = _head_edits(edited) or _edits(edited, width(model))
    if edits is None:  # a shape of graph we do not know: gather behind it, which is always right
        _gather(edited, chosen)
    else:
        weights = {tensor.name: tensor for tensor in edited.graph.initializer}
        for name, axis in edits:
            _take(weights[name], chosen, axis)
    edited.graph.output[0].type.tensor_type.shape.dim[-1].dim_value = len(chosen)
    return edited


def centre(model: ModelProto, offset: Floats) -> ModelProto:
    """Return a copy that subtracts `offset` (D,) from its output and keeps what is above zero."""
    edited = ModelProto()
    edited.CopyFrom(model)
    before = _detach_output(edited)
    edited.graph.initializer.append(numpy_helper.from_array(offset.astype(np.float32), "added/centre"))
    edited.graph.node.append(helper.make_node("Sub", [before, "added/centre"], ["added/centred"], name="added/centre"))
    edited.graph.node.append(helper.make_node("Relu", ["added/centred"], [OUTPUT], name="added/activate"))
    return edited


def activate(model: ModelProto, operator: str = "Relu") -> ModelProto:
    """Return a copy with a ReLU, or another function of one value, behind its output."""
    edited = ModelProto()
    edited.CopyFrom(model)
    before = _detach_output(edited)
    edited.graph.node.append(helper.make_node(operator, [before], [OUTPUT], name=before))
    return edited


def _detach_output(model: ModelProto) -> str:
    """Give the output's producer another name, so that new nodes can follow it."""
    inner = f"added/before_{len(model.graph.node)}"
    for node in model.graph.node:
        node.output[:] = [inner if name == OUTPUT else name for name in node.output]
        node.input[:] = [inner if name == OUTPUT else name for name in node.input]
    return inner


def _gather(model: ModelProto, order: Numbers) -> None:
    before = _detach_output(model)
    name = f"added/order_{len(model.graph.node)}"
    model.graph.initializer.append(numpy_helper.from_array(order, name))
    model.graph.node.append(helper.make_node("Gather", [before, name], [OUTPUT], axis=-1, name=name))


def _head_edits(model: ModelProto) -> list[Edit] | None:
    """Read the arrays of a head, which may lie in a file of their own, where its power is the graph's last step."""
    makers = {name: node for node in model.graph.node for name in node.output}
    value, read = OUTPUT, ""
    for operator in ("Pow", "Relu", "Add"):
        node = makers.get(value)
        if node is None or node.op_type != operator:
            return None
        value, read = node.input[0], node.input[-1]
    inside = {tensor.name for tensor in model.graph.initializer}
    edits = [(KEPT + "weight", 1), (KEPT + "bias", 0)]
    return edits if read == KEPT + "bias" and inside.issuperset(name for name, _ in edits) else None


def _edits(model: ModelProto, columns: int) -> list[Edit] | None:
    """Find what must be permuted between the columns' layer and the output; None where it is not clear."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    readers: dict[str, int] = {}
    for node in graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    edits: list[Edit] = []
    value, rank = OUTPUT, 2  # rank 4 once a pooling was passed: columns then lie on axis 1
    while True:
        maker = makers.get(value)
        if maker is None or (value != OUTPUT and readers.get(value, 0) != 1):
            return None
        step = _step(maker, shapes, columns, rank)
        if step is None:
            return None
        changes, value_before, rank = step
        if any(readers[name] != 1 for name, _ in changes):  # another node reads these weights too
            return None
        edits += changes
        if value_before is None:
            return edits
        value = value_before


def _step(
    node: NodeProto, shapes: dict[str, tuple[int, ...]], columns: int, rank: int
) -> tuple[list[Edit], str | None, int] | None:
    """Return one node walked back over: its edits, the value before it (None at the layer that makes the columns)."""
    if node.op_type in ACTIVATIONS:
        return [], node.input[0], rank
    if node.op_type == "Clip":
        scalar = all(not name or shapes.get(name) == () for name in node.input[1:])
        return ([], node.input[0], rank) if scalar else None
    if node.op_type in POOLS:
        return _pool(node, rank)
    if node.op_type in PAIRWISE:
        return _pairwise(node, shapes, columns, rank)
    if node.op_type == "BatchNormalization":
        known = all(shapes.get(name) == (columns,) for name in node.input[1:])
        return ([(name, 0) for name in node.input[1:]], node.input[0], rank) if known else None
    maker = _LAYERS.get(node.op_type)
    edits = maker(node, shapes, columns, rank) if maker else None
    return None if edits is None else (edits, None, rank)


def _pool(node: NodeProto, rank: int) -> tuple[list[Edit], str, int] | None:
    """Return poolings over height and width, and the squeezing that follows them."""
    if node.op_type in ("ReduceMean", "ReduceMax", "GlobalAveragePool", "GlobalMaxPool"):
        return [], node.input[0], 4
    if node.op_type in ("Flatten", "Squeeze") and rank == 2:
        return [], node.input[0], 4
    return ([], node.input[0], 4) if rank == 4 else None


def _pairwise(
    node: NodeProto, shapes: dict[str, tuple[int, ...]], columns: int, rank: int
) -> tuple[list[Edit], str, int] | None:
    constants = [name for name in node.input if name in shapes]
    others = [name for name in node.input if name not in shapes]
    if len(constants) != 1 or len(others) != 1:
        return None
    shape = shapes[constants[0]]
    if int(np.prod(shape)) == 1:
        return [], others[0], rank
    axis = _column_axis(shape, columns, rank)
    return None if axis is None else ([(constants[0], axis)], others[0], rank)


def _column_axis(shape: tuple[int, ...], columns: int, rank: int) -> int | None:
    """Return the axis of a broadcast constant that the columns lie on; None unless it is the only one that is not 1."""
    padded = (1,) * (rank - len(shape)) + shape
    fits = len(padded) == rank and padded[1] == columns and int(np.prod(padded)) == columns
    return 1 - (rank - len(shape)) if fits else None


def _gemm(node: NodeProto, shapes: dict[str, tuple[int, ...]], columns: int, rank: int) -> list[Edit] | None:
    options = {attribute.name: attribute.i for attribute in node.attribute}
    axis = 0 if options.get("transB", 0) else 1
    if rank != 2 or shapes.get(node.input[1], ())[axis : axis + 1] != (columns,):
        return None
    bias = node.input[2] if len(node.input) > 2 else ""
    if bias and bias not in shapes:
        return None
    wide = bool(bias) and int(np.prod(shapes[bias])) == columns > 1
    return [(node.input[1], axis), *([(bias, len(shapes[bias]) - 1)] if wide else [])]


def _matmul(node: NodeProto, shapes: dict[str, tuple[int, ...]], columns: int, rank: int) -> list[Edit] | None:
    shape = shapes.get(node.input[1], ())
    return [(node.input[1], 1)] if rank == 2 and len(shape) == 2 and shape[1] == columns else None


def _conv(node: NodeProto, shapes: dict[str, tuple[int, ...]], columns: int, rank: int) -> list[Edit] | None:
    groups = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
    parameters = [name for name in node.input[1:] if name]
    known = all(shapes.get(name, ())[:1] == (columns,) for name in parameters)
    return [(name, 0) for name in parameters] if rank == 4 and groups == 1 and known else None


Layer = Callable[[NodeProto, dict[str, tuple[int, ...]], int, int], list[Edit] | None]
_LAYERS: dict[str, Layer] = {"Gemm": _gemm, "MatMul": _matmul, "Conv": _conv}


def _take(tensor: TensorProto, order: Numbers, axis: int) -> None:
    chosen = np.ascontiguousarray(np.take(numpy_helper.to_array(tensor), order, axis=axis))
    tensor.CopyFrom(numpy_helper.from_array(chosen, tensor.name))
