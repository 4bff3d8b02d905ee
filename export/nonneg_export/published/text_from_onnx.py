"""The text tower of a repository's ONNX files, with its tokenizer as data."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, compose, helper, numpy_helper

from nonneg_core.errors import DataInvalid
from nonneg_export.graphs.canonical import canonical
from nonneg_export.published.fetching import fetch_onnx, gathered
from nonneg_export.published.onnx_choice import OnnxFile
from nonneg_export.published.published_tokenizer import check_known, padding, published_tokenizer
from nonneg_export.published.repository import HubRepository
from nonneg_export.texts.text_towers import TextEncoder
from nonneg_runtime.graph import OUTPUT
from nonneg_runtime.inference.session import Session
from nonneg_runtime.words.text_tower import TOKENS, Tokenizer
from nonneg_training.onnx_backbone.onnx_graph import load, stripped
from nonneg_training.onnx_backbone.scaling_and_pooling import INNER
from nonneg_training.onnx_backbone.to_float32 import to_float32

IDS, MASK = "input_ids", "attention_mask"
OUTPUTS = ("text_embeds", "pooler_output", "sentence_embedding")
USUAL_LENGTH = {"siglip": 64, "siglip2": 64}  # what their configurations leave to the library; others: CLIP's
CLIPS_LENGTH = 77
WITHOUT = "wrap the image tower alone with --no-text, or both through --file torch"


def text_encoder(repository: HubRepository, chosen: OnnxFile, config: dict[str, Any]) -> TextEncoder:
    """Return the tower in this file, its tokenizer checked against it."""
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        model = load(gathered(fetch_onnx(repository, chosen), Path(place)))
    said = config.get("text_config", {})
    usual = USUAL_LENGTH.get(str(config.get("model_type")), CLIPS_LENGTH)
    length = int(said.get("max_position_embeddings") or usual)
    written = published_tokenizer(repository, config)
    pad = padding(repository, written)
    reader = Tokenizer(written, length, pad)
    if said.get("vocab_size"):
        check_known(repository, reader, int(said["vocab_size"]))
    ends_in_pad = reader.ids("a")[-1:] == [pad]  # as CLIP's do: what follows the first is causally masked
    graph = words(model, length, None if ends_in_pad else pad, str(chosen))
    return TextEncoder(graph, written, length, pad)


def words(model: ModelProto, length: int, pad: int | None, name: str) -> ModelProto:
    """Make a copy that takes `tokens` (batch, length) and has one output; `pad`: the token that is masked, if any."""
    model = to_float32(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value.type.tensor_type.elem_type for value in model.graph.input if value.name not in weights}
    outputs = [value.name for value in model.graph.output]
    taken = next((wanted for wanted in OUTPUTS if wanted in outputs), None)
    if IDS not in inputs or not inputs.keys() <= {IDS, MASK} or taken is None:
        raise DataInvalid(
            f"{name} takes {', '.join(inputs)} and answers {', '.join(outputs)}: a text tower takes {IDS} and perhaps "
            f"{MASK}, and answers one of {', '.join(OUTPUTS)}",
            fix=WITHOUT,
        )
    inner = compose.add_prefix(stripped(model), INNER)
    graph = inner.graph
    nodes = [helper.make_node("Cast", [TOKENS], [INNER + IDS], to=inputs[IDS]), *graph.node]
    if MASK in inputs:
        constant = numpy_helper.from_array(np.array(-1 if pad is None else pad, np.int64), "front/pad")
        graph.initializer.append(constant)
        nodes[:0] = [
            helper.make_node("Equal", [TOKENS, "front/pad"], ["front/empty"]),
            helper.make_node("Not", ["front/empty"], ["front/there"]),
            helper.make_node("Cast", ["front/there"], [INNER + MASK], to=inputs[MASK]),
        ]
    nodes.append(helper.make_node("Cast", [INNER + taken], [OUTPUT], to=TensorProto.FLOAT))
    for field in ("node", "input", "output"):
        graph.ClearField(field)
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info(TOKENS, TensorProto.INT64, ["batch", length]))
    graph.output.append(ValueInfoProto(name=OUTPUT))
    columns = _columns(inner, length, name)
    graph.ClearField("output")
    graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", columns]))
    return canonical(inner)


def _columns(model: ModelProto, length: int, name: str) -> int:
    """Return how many columns it answers to two texts."""
    rows = np.zeros((2, length), np.int64)
    try:
        found = Session(model.SerializeToString(), takes=TOKENS).run(rows)
    except Exception as error:  # onnxruntime's own classes, none of them public
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise DataInvalid(f"ONNX Runtime cannot run {name} on two texts ({reason})", fix=WITHOUT) from error
    if found.ndim != 2 or len(found) != 2:
        raise DataInvalid(f"{name} answers {found.shape} to two texts", fix=WITHOUT)
    return int(found.shape[1])
