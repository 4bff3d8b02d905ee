"""A head behind an ONNX encoder: a linear layer, or a head on roots with its weights in a file of their own.

It takes the features' square roots, their directions or the features as they are. The file is safetensors with a header
of a fixed size, which ONNX reads as external data. Writing another head of the same shape there has another encoder,
without a tool for graphs.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from nonneg_core.arrays import Floats
from nonneg_core.errors import DataInvalid
from nonneg_core.files import safetensors_file
from nonneg_export.graphs.canonical import KEPT, canonical, save
from nonneg_export.graphs.columns import width
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle
from nonneg_runtime.bundle.head_file import HEAD, HEADER, PARTS, arrays_of, metadata_of
from nonneg_runtime.heads.feature_head import Takes
from nonneg_runtime.heads.head import Head
from nonneg_runtime.inference.runner import OUTPUT
from nonneg_training.onnx_backbone.onnx_graph import load_graph


def with_root_head(
    model: ModelProto,
    head: Head,
    *,
    takes: Takes = "roots",
    stored: type = np.float16,
    shift: Floats | None = None,
) -> ModelProto:
    """Return a copy whose pooled features f become relu(x weight + bias)^power.

    takes: what x is of f: its roots, f as it is, or f / |f|; `stored`: the weights' type in the file, widened as it is
    loaded. shift: added to x.
    """
    features = width(model)
    if head.weight.shape[0] != features:
        raise DataInvalid(
            f"a head for {head.weight.shape[0]} features does not fit this backbone's {features}",
            fix="use the backbone that the head was fitted on",
            field="head",
            value=int(head.weight.shape[0]),
            limit=features,
        )
    copy = ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        node.output[:] = ["head/features" if output == OUTPUT else output for output in node.output]
    for name, array in (arrays_of(head) | {"weight": head.weight.astype(stored)}).items():
        copy.graph.initializer.append(numpy_helper.from_array(array, KEPT + name))
    copy.graph.initializer.append(numpy_helper.from_array(np.array(head.power, dtype=np.float32), "head/power"))
    if shift is not None:
        copy.graph.initializer.append(numpy_helper.from_array(shift, "head/shift"))
    copy.graph.node.extend(_nodes(takes, shifted=shift is not None))
    copy.graph.ClearField("output")
    copy.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", head.dimensions]))
    return copy


def _nodes(takes: Takes, *, shifted: bool) -> list[Any]:
    weight, bias = (KEPT + name for name in PARTS)
    steps: list[Step] = [
        ("Cast", [weight], "head/weight", {"to": TensorProto.FLOAT}),
        *TAKEN[takes],
        *([_MOVED] if shifted else []),
        ("MatMul", ["head/moved" if shifted else "head/taken", "head/weight"], "head/turned", {}),
        ("Add", ["head/turned", bias], "head/shifted", {}),
        ("Relu", ["head/shifted"], "head/pressed", {}),
        ("Pow", ["head/pressed", "head/power"], OUTPUT, {}),
    ]
    return [
        helper.make_node(op, inputs, [output], name=f"head/{op}", **attributes)
        for op, inputs, output, attributes in steps
    ]


Step = tuple[str, list[str], str, dict[str, Any]]
_MOVED: Step = ("Add", ["head/taken", "head/shift"], "head/moved", {})
TAKEN: dict[Takes, list[Step]] = {
    "roots": [("Sqrt", ["head/features"], "head/taken", {})],
    "features": [("Identity", ["head/features"], "head/taken", {})],
    "directions": [("LpNormalization", ["head/features"], "head/taken", {"axis": -1, "p": 2})],
}


def detach_head(model: ModelProto, place: Path, metadata: dict[str, str]) -> bool:
    """Move the head's weights from the graph into `place`/head.safetensors; False where the graph has none apart."""
    inside = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name.startswith(KEPT)}
    if not inside:
        return False
    arrays: dict[str, NDArray[Any]] = {name: numpy_helper.to_array(inside[KEPT + name]) for name in PARTS}
    safetensors_file.write(place / HEAD, arrays, metadata, header=HEADER)
    refer_to_head(model, place)
    return True


def refer_to_head(model: ModelProto, place: Path) -> None:
    """Have the graph read the head's weights from `place`/head.safetensors, which holds the same."""
    offsets = safetensors_file.read(place / HEAD).offsets
    inside = {tensor.name: tensor for tensor in model.graph.initializer}
    for name in PARTS:
        tensor = inside[KEPT + name]
        length = numpy_helper.to_array(tensor).nbytes
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entries = {"location": HEAD, "offset": str(offsets[name]), "length": str(length)}
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)


# A linear head behind an ONNX encoder: its weight and bias become the last layer of the graph.


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


# An encoder's graph with a head behind it, where the bundle has none in a file of its own.


def write_encoder(bundle: Bundle, head: Head, place: Path) -> None:
    """Put the encoder with the head on roots of its embedding into `place`, the head's weights beside it."""
    model = canonical(with_root_head(load_graph(bundle.encoder), head))
    detach_head(model, place, metadata_of(head))
    save(model, place / ENCODER)
