"""A tiny bundle with a text tower that knows four words, for the tests of the server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle, write_bundle
from nonneg_runtime.bundle.evidence import Golden
from nonneg_runtime.bundle.manifest import TextRecord
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import OUTPUT
from nonneg_runtime.inference.text_tower import GOLDEN, TOKENS, Tokenizer

WORDS = ("<pad>", "<unk>", "a", "dog", "cat", "photo", "of")
LENGTH = 6


def with_text_tower(image_tower: Bundle, folder: Path) -> Bundle:
    """A copy of a bundle that embeds texts, too: each the positive part of the sum of its words' vectors."""
    width, place = image_tower.manifest.dimensions, folder / "parts"
    place.mkdir(parents=True)
    _write_tower(place / "text.onnx", width)
    _write_tokenizer(place / "tokenizer.json")
    reader = Tokenizer(place / "tokenizer.json", LENGTH, 0)
    z = Session(place / "text.onnx", takes=TOKENS).run(reader.rows([GOLDEN]))[0]
    active = np.flatnonzero(z)
    golden = Golden(indices=tuple(active.tolist()), values=tuple(z[active].tolist()))
    record = TextRecord(file="text.onnx", tokenizer="tokenizer.json", length=LENGTH, pad=0, golden=golden)
    parts = {name: image_tower.path / name for name in image_tower.manifest.files}
    parts |= {name: place / name for name in ("text.onnx", "tokenizer.json")}
    manifest = image_tower.manifest.model_copy(update={"text": record, "name": "towers"})
    write_bundle(folder / "towers", manifest, parts)
    return open_bundle(folder / "towers")


def _write_tower(path: Path, width: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), width)).astype(np.float32)
    vectors[0] = 0
    nodes = [
        helper.make_node("Gather", ["vectors", TOKENS], ["found"]),
        helper.make_node("ReduceSum", ["found", "axis"], ["summed"], keepdims=0),
        helper.make_node("Relu", ["summed"], [OUTPUT]),
    ]
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info(TOKENS, TensorProto.INT64, ["batch", LENGTH])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", width])],
        [numpy_helper.from_array(vectors, "vectors"), numpy_helper.from_array(np.array([1]), "axis")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _write_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer as Library
    from tokenizers import models, pre_tokenizers

    made = Library(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(path))
