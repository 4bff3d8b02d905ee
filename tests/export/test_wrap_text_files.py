"""Two towers as hubs hold them in ONNX files, one for images and one for texts, become one bundle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from loopback_hub import Hub, running
from onnx import TensorProto, helper, numpy_helper
from test_wrap_published import WIDTH, encoder, published
from test_wrap_text import tokenizer

from nonneg_core.errors import DataInvalid
from nonneg_export.commands.wrap import wrap
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.bundle.head_file import read_head
from nonneg_runtime.inference.text_tower import Tokenizer, text_tower

constants = pytest.importorskip("huggingface_hub.constants")
pytest.importorskip("tokenizers")
NAME, LENGTH, KNOWN = "someone/pair", 12, 64
TABLE = np.random.default_rng(3).normal(size=(KNOWN, WIDTH)).astype(np.float32)


def text_model(
    *, mask: bool = True, half: bool = False, width: int = WIDTH, output: str = "text_embeds", alike: bool = False
) -> bytes:
    """The mean of the table's rows of the tokens that are there; without a mask, of all. alike: of equal rows."""
    kind, table = (TensorProto.FLOAT16, np.float16) if half else (TensorProto.FLOAT, np.float32)
    rows = np.repeat(TABLE[:1], KNOWN, axis=0) if alike else TABLE
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    taken = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "tokens"])]
    if mask:
        taken.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["n", "tokens"]))
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["there"], to=kind),
            helper.make_node("Unsqueeze", ["there", "last"], ["wide"]),
            helper.make_node("Mul", ["rows", "wide"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "second"], ["sum"], keepdims=0),
            helper.make_node("ReduceSum", ["wide", "second"], ["count"], keepdims=0),
            helper.make_node("Div", ["sum", "count"], [output]),
        ]
    else:
        nodes.append(helper.make_node("ReduceMean", ["rows"], [output], axes=[1], keepdims=0))
    weights = [
        numpy_helper.from_array(rows[:, :width].astype(table), "table"),
        numpy_helper.from_array(np.array([-1], np.int64), "last"),
        numpy_helper.from_array(np.array([1], np.int64), "second"),
    ]
    graph = helper.make_graph(
        nodes, "text", taken, [helper.make_tensor_value_info(output, kind, ["n", width])], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def pair(**files: bytes) -> dict[str, bytes]:
    """A repository of the kind that is made for browsers: ONNX files, a tokenizer, no weights of torch."""
    sizes = {"vocab_size": KNOWN, "max_position_embeddings": LENGTH}
    config = {"model_type": "clip", "vision_config": {}, "text_config": sizes}
    held = {**published(), "onnx/vision_model.onnx": encoder(), "tokenizer.json": tokenizer()}
    held |= {"config.json": json.dumps(config).encode(), "tokenizer_config.json": b'{"pad_token": "<unk>"}'}
    return {**held, **{f"onnx/{name}.onnx": data for name, data in files.items()}}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Hub]:
    with running() as hub, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield hub


def wrapped(labelled: Path, out: Path, *words: str) -> Result:
    return CliRunner().invoke(wrap, [f"hf:{NAME}", "--calibrate", str(labelled), "--out", str(out), *words])


def in_halves() -> dict[str, bytes]:
    halves = {"onnx/vision_model_fp16.onnx": encoder(half=True), "onnx/text_model_fp16.onnx": text_model(half=True)}
    return {**pair(), **halves}


@pytest.mark.parametrize("case", ["with a mask", "without one", "in half precision"])
def test_the_text_file_comes_along_with_the_image_file(case: str, here: Hub, labelled: Path, tmp_path: Path) -> None:
    mask, half = case != "without one", case == "in half precision"
    here.files[NAME] = in_halves() if half else pair(text_model=text_model(mask=mask))
    done = wrapped(labelled, tmp_path / "b", *(["--file", "fp16"] if half else []))
    assert done.exit_code == 0, done.output
    assert "with its text tower, onnx/text_model" in done.output
    bundle = open_bundle(tmp_path / "b")
    record, tower = bundle.manifest.text, text_tower(bundle)
    assert record is not None
    assert tower is not None
    assert (record.length, record.pad) == (LENGTH, 2)
    assert [check.name for check in record.checks] == ["batch"]  # what the file was made from is not there
    head, texts = read_head(bundle.path / "head.safetensors"), ["a dog", "the cat", "a photo of the cat"]
    rows = Tokenizer(bundle.path / record.tokenizer, LENGTH, record.pad).rows(texts)
    there = (rows != 2) | (not mask)
    features = (TABLE[rows] * there[..., None]).sum(axis=1) / there.sum(axis=1, keepdims=True)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    graph = onnx.load(bundle.path / "text.onnx").graph
    shifts = [numpy_helper.to_array(t) for t in graph.initializer if tuple(t.dims) == (WIDTH,)]
    found = np.stack([tower.embed(text) for text in texts])
    wrong = min(np.abs(found - head.embed((features + shift).astype(np.float32))).max() for shift in shifts)
    assert wrong < (0.02 if half else 2e-3)


@pytest.mark.parametrize(
    ("files", "said"),
    [({}, "lacks a text file in fp32: --file torch takes both"), ({"tokenizer.json": None}, "lacks a tokenizer.json")],
)
def test_a_tower_that_stays_out_is_told(
    files: dict[str, bytes | None], said: str, here: Hub, labelled: Path, tmp_path: Path
) -> None:
    held = {**pair(), **({"onnx/text_model.onnx": text_model()} if files else {}), **files}
    here.files[NAME] = {name: data for name, data in held.items() if data is not None}
    done = wrapped(labelled, tmp_path / "b")
    assert done.exit_code == 0, done.output
    assert said in done.output
    assert open_bundle(tmp_path / "b").manifest.text is None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (text_model(width=WIDTH - 1), "the image tower answers 12 columns and the text tower 11"),
        (text_model(output="logits"), "answers logits: a text tower takes input_ids"),
        (text_model(alike=True), "answers all of 200 texts alike: its tokenizer is another model's"),
    ],
)
def test_a_text_tower_that_does_not_fit_is_refused(
    model: bytes, message: str, here: Hub, labelled: Path, tmp_path: Path
) -> None:
    here.files[NAME] = pair(text_model=model)
    done = wrapped(labelled, tmp_path / "b")
    assert isinstance(done.exception, DataInvalid)
    assert message in str(done.exception)
    assert not (tmp_path / "b").exists()
