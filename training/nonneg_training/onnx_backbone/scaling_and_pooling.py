"""Any ONNX image encoder made to look like ours: uint8 NHWC pixels in, one row of features an image out."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, compose, helper, numpy_helper

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import INPUT, OUTPUT, test_pattern
from nonneg_training.onnx_backbone.onnx_graph import stripped, to_float32

Pool = Literal["cls", "mean"]
INNER = "inner/"  # before every name of the wrapped graph, so that none collides with ours
USUAL_OUTPUTS = ("embedding", "image_embeds", "image_embeddings", "pooler_output", "sentence_embedding", "features")
OLDEST_OPSET = 11
LARGEST = 2**31 - 1  # protobuf's limit


@dataclass(frozen=True)
class Scaling:
    """How pixels 0..255 become what the encoder was trained on: (pixel * factor - mean) / std, channel by channel."""

    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)


def with_scaling_and_pooling(
    model: ModelProto,
    size: int,
    scaling: Scaling,
    *,
    input_name: str | None = None,
    output_name: str | None = None,
    pool: Pool | None = None,
) -> ModelProto:
    """Return a copy with the scaling in front and one output, pooled if it answers tokens or a feature map."""
    _check_opset(model)
    model = to_float32(model)
    entry, exit_ = _entry(model, input_name), output_of(model, output_name)
    front, weights = _front(entry, size, scaling)
    inner = compose.add_prefix(stripped(model), INNER)
    graph = inner.graph
    nodes = [*front, *graph.node]
    graph.ClearField("node")
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    graph.ClearField("input")
    graph.input.append(helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", size, size, 3]))
    _answer(inner, INNER + exit_, ["batch"])
    shape = _try(inner, INNER + exit_, size)
    tail, columns = _tail(shape, INNER + exit_, pool, _opset(model))
    graph.node.extend(tail)
    _answer(inner, OUTPUT, ["batch", columns])
    return inner


def side(model: ModelProto) -> int | None:
    """Return the side of the square that the model takes, if it takes only one."""
    shape = [dim.dim_value for dim in _entry(model, None).type.tensor_type.shape.dim]
    return next((n for n in reversed(shape[1:]) if n not in (0, 3)), None)


def _opset(model: ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _check_opset(model: ModelProto) -> None:
    if _opset(model) < OLDEST_OPSET:
        raise DataInvalid(
            f"this model uses opset {_opset(model)}; at least {OLDEST_OPSET} is needed",
            fix="export it again at opset 17 or later",
            value=_opset(model),
            limit=OLDEST_OPSET,
        )


def _entry(model: ModelProto, name: str | None) -> ValueInfoProto:
    """Return the input that takes the picture."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in weights}
    if len(inputs) != 1:
        raise DataInvalid(
            f"this model has {len(inputs)} inputs ({', '.join(inputs)})", fix="export the image tower by itself"
        )
    only: str = next(iter(inputs))
    if name not in (None, only):
        raise ConfigInvalid(f"the model has no input {name!r}", fix=f"its input is {only!r}", field="input", value=name)
    entry: ValueInfoProto = inputs[only]
    return entry


def output_of(model: ModelProto, name: str | None) -> str:
    """Return the output that holds the features; `name`: the one that was asked for."""
    names = [value.name for value in model.graph.output]
    if name is not None and name not in names:
        raise ConfigInvalid(
            f"the model has no output {name!r}", fix=f"choose one of {', '.join(names)}", field="output", value=name
        )
    usual = [candidate for candidate in USUAL_OUTPUTS if candidate in names]
    chosen = name or (names[0] if len(names) == 1 else usual[0] if usual else None)
    if chosen is None:
        raise ConfigInvalid(
            f"the model has {len(names)} outputs", fix=f"choose one of {', '.join(names)} with --output", field="output"
        )
    return chosen


def _front(entry: ValueInfoProto, size: int, scaling: Scaling) -> tuple[list[NodeProto], dict[str, NDArray[Any]]]:
    """Turn our pixels into the wrapped model's input."""
    tensor = entry.type.tensor_type
    shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    if len(shape) != 4:
        raise DataInvalid(f"input {entry.name!r} has {len(shape)} axes, an image has 4", fix="wrap an image encoder")
    channels_last = shape[3] == 3 and shape[1] != 3
    sides = [n for n in (shape[1:3] if channels_last else shape[2:4]) if n]
    if any(n != size for n in sides):
        raise ConfigInvalid(
            f"the model takes {' x '.join(map(str, sides))} pixels, not {size}",
            fix=f"use --size {sides[0]}",
            value=size,
        )
    weights = {
        "front/factor": (scaling.factor / np.array(scaling.std)).astype(np.float32),
        "front/shift": (np.array(scaling.mean) / np.array(scaling.std)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Cast", [INPUT], ["front/float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["front/float", "front/factor"], ["front/scaled"]),
        helper.make_node("Sub", ["front/scaled", "front/shift"], ["front/normal"]),
    ]
    value = "front/normal"
    if tensor.elem_type == TensorProto.UINT8:  # it scales for itself
        nodes, weights, value = [], {}, INPUT
    if not channels_last:
        nodes.append(helper.make_node("Transpose", [value], ["front/nchw"], perm=[0, 3, 1, 2]))
        value = "front/nchw"
    nodes.append(helper.make_node("Cast", [value], [INNER + entry.name], to=tensor.elem_type))
    return nodes, weights


def _answer(model: ModelProto, name: str, shape: list[int | str]) -> None:
    """Make `name` the only output."""
    model.graph.ClearField("output")
    if len(shape) == 1:  # not known yet
        model.graph.output.append(ValueInfoProto(name=name))
    else:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


def _try(model: ModelProto, name: str, size: int) -> tuple[int, ...]:
    """Return the shape of what the model answers to two images; a model that cannot do two is told so."""
    if model.ByteSize() > LARGEST:
        raise DataInvalid("this model is larger than 2 GB", fix="store it as float16 first")
    pixels = np.concatenate([test_pattern(size)] * 2)
    try:
        answer: NDArray[Any] = Session(model.SerializeToString(), output=name).run(pixels)
    except Exception as error:  # onnxruntime's own classes, none of them public
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise DataInvalid(
            f"ONNX Runtime cannot run this model on two images ({reason})",
            fix="export it with a dynamic batch and operators that ONNX Runtime has (opset 17 is safe)",
        ) from error
    if answer.shape[:1] != (2,):
        raise DataInvalid(f"output {name.removeprefix(INNER)!r} has shape {answer.shape} for two images", fix=_CHOOSE)
    return answer.shape


_CHOOSE = "choose the output that holds one row an image with --output"


def _tail(shape: tuple[int, ...], value: str, pool: Pool | None, opset: int) -> tuple[list[NodeProto], int]:
    """Turn the output into float rows; the number of columns."""
    nodes: list[NodeProto] = []
    if len(shape) == 4 and (pool == "mean" or shape[2:] == (1, 1)):
        nodes += [helper.make_node("GlobalAveragePool", [value], ["tail/pooled"])]
        nodes += [helper.make_node("Flatten", ["tail/pooled"], ["tail/rows"])]
        columns = shape[1]
    elif len(shape) == 3 and pool is not None:
        nodes += _tokens(value, pool, opset)
        columns = shape[2]
    elif len(shape) == 2:
        nodes += [helper.make_node("Identity", [value], ["tail/rows"])]
        columns = shape[1]
    else:
        raise ConfigInvalid(
            f"output {value.removeprefix(INNER)!r} has shape {('batch', *shape[1:])}",
            fix="pool it with --pool mean" + (" or --pool cls" if len(shape) == 3 else "") + ", or " + _CHOOSE,
            field="pool",
        )
    return [*nodes, helper.make_node("Cast", ["tail/rows"], [OUTPUT], to=TensorProto.FLOAT)], columns


def _tokens(value: str, pool: Pool, opset: int) -> list[NodeProto]:
    """Turn (batch, tokens, D) into (batch, D): the first token, or the mean of all."""
    if pool == "cls":
        first = numpy_helper.from_array(np.array(0, np.int64))
        return [
            helper.make_node("Constant", [], ["tail/first"], value=first),
            helper.make_node("Gather", [value, "tail/first"], ["tail/rows"], axis=1),
        ]
    if opset < 18:  # axes became an input
        return [helper.make_node("ReduceMean", [value], ["tail/rows"], axes=[1], keepdims=0)]
    axes = numpy_helper.from_array(np.array([1], np.int64))
    return [
        helper.make_node("Constant", [], ["tail/axes"], value=axes),
        helper.make_node("ReduceMean", [value, "tail/axes"], ["tail/rows"], keepdims=0),
    ]
