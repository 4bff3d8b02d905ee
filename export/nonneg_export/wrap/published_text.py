"""A published text tower: its tokenizer as data with what its library does to texts, and its ONNX file.

SigLIP was trained on texts in lower case without punctuation, which its tokenizer's file may leave to the library.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, compose, helper, numpy_helper

from nonneg_core.errors import DataInvalid, NonnegError
from nonneg_core.terminal.installing import needing
from nonneg_export.assembly.text_towers import TOKENIZER, TextEncoder
from nonneg_export.graphs.canonical import canonical
from nonneg_export.share.hub_repository import LARGEST_TOKENIZER, HubRepository
from nonneg_export.wrap.from_onnx import OnnxFile, fetch_onnx, gathered
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import OUTPUT
from nonneg_runtime.inference.text_tower import TOKENS, Tokenizer
from nonneg_training.onnx_backbone.onnx_graph import load_graph, stripped, to_float32
from nonneg_training.onnx_backbone.scaling_and_pooling import INNER

PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
BY_FAMILY = {"siglip": "bare", "siglip2": "lowered"}  # by the `model_type` of a configuration
OPEN, SAME = "canonicalize", "whitespace"


def of_family(written: str, model_type: str) -> str:
    """Return the tokenizer's file of such a model."""
    way = BY_FAMILY.get(model_type)
    return written if way is None else cleaned(written, way)


def cleaned(written: str, way: str) -> str:
    """Return the same tokenizer, which cleans a text before it does what it did; cleaning twice changes nothing."""
    of = library()
    made = of.Tokenizer.from_str(written)
    before, own = normalizer(way), made.normalizer
    made.normalizer = before if own is None else of.normalizers.Sequence([before, own])
    return str(made.to_str())


def normalizer(way: str) -> Any:
    """Clean as open_clip's `lower`, `whitespace` and `canonicalize`, which mends broken Unicode and HTML, too."""
    of, regex = library().normalizers, library().Regex
    if way == "lowered":
        return of.Lowercase()
    steps = [of.NFC()]
    if way == OPEN:
        steps.append(of.Replace("_", " "))
    if way in (OPEN, "bare"):
        steps.append(of.Replace(regex(PUNCTUATION), ""))
    if way != SAME:
        steps.append(of.Lowercase())
    return of.Sequence([*steps, of.Replace(regex(r"\s+"), " "), of.Strip()])


def library() -> Any:
    """Return the package tokenizers, or the extra that brings it."""
    with needing("text", extra="text"):
        import tokenizers
    return tokenizers


# A published tokenizer: whether it is its model's, and what it fills short texts up with.

USUAL_PAD = ("<|endoftext|>", "</s>", "<pad>", "[PAD]")


def check_known(repository: HubRepository, reader: Tokenizer, known: int) -> None:
    """Refuse a tokenizer that gives numbers which the tower does not know."""
    if reader.largest >= known:
        raise DataInvalid(
            f"{TOKENIZER} of {repository} gives numbers up to {reader.largest}, and the text tower knows {known}: it "
            "is another model's",
            fix="name another revision, or wrap the image tower alone with --no-text",
            value=reader.largest,
            limit=known - 1,
        )


def published_tokenizer(repository: HubRepository, config: dict[str, Any]) -> str:
    """Return the content of the repository's tokenizer, with what the model's library does to a text before it."""
    path = repository.fetch(TOKENIZER, LARGEST_TOKENIZER)
    try:
        written = path.read_text(encoding="utf-8")
        library().Tokenizer.from_str(written)
    except NonnegError:
        raise
    except Exception as error:  # the library raises Exception itself
        raise DataInvalid(
            f"{TOKENIZER} of {repository} is not a tokenizer ({error})", fix="name another revision"
        ) from error
    return of_family(written, str(config.get("model_type", "")))


def padding(repository: HubRepository, written: str) -> int:
    """Return the number of the token that fills up short texts."""
    own_token = repository.json("tokenizer_config.json").get("pad_token")
    own_token = own_token.get("content") if isinstance(own_token, dict) else own_token
    vocabulary = library().Tokenizer.from_str(written)
    for token in (own_token, *USUAL_PAD):
        number = vocabulary.token_to_id(token) if isinstance(token, str) else None
        if number is not None:
            return int(number)
    return 0


# The text tower of a repository's ONNX files, with its tokenizer as data.

IDS, MASK = "input_ids", "attention_mask"
OUTPUTS = ("text_embeds", "pooler_output", "sentence_embedding")
USUAL_LENGTH = {"siglip": 64, "siglip2": 64}  # what their configurations leave to the library; others: CLIP's
CLIPS_LENGTH = 77
WITHOUT = "wrap the image tower alone with --no-text, or both through --file torch"


def text_encoder(repository: HubRepository, chosen: OnnxFile, config: dict[str, Any]) -> TextEncoder:
    """Return the tower in this file, its tokenizer checked against it."""
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        model = load_graph(gathered(fetch_onnx(repository, chosen), Path(place)))
    settings = config.get("text_config", {})
    usual = USUAL_LENGTH.get(str(config.get("model_type")), CLIPS_LENGTH)
    length = int(settings.get("max_position_embeddings") or usual)
    written = published_tokenizer(repository, config)
    pad = padding(repository, written)
    reader = Tokenizer(written, length, pad)
    if settings.get("vocab_size"):
        check_known(repository, reader, int(settings["vocab_size"]))
    ends_in_pad = reader.ids("a")[-1:] == [pad]  # as CLIP's do: what follows the first is causally masked
    graph = words(model, length, None if ends_in_pad else pad, str(chosen))
    return TextEncoder(graph, written, length, pad)


def words(model: ModelProto, length: int, pad: int | None, name: str) -> ModelProto:
    """Make a copy that takes `tokens` (batch, length) and has one output; `pad`: the token that is masked, if any."""
    model = to_float32(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value.type.tensor_type.elem_type for value in model.graph.input if value.name not in weights}
    outputs = [value.name for value in model.graph.output]
    taken = next((candidate for candidate in OUTPUTS if candidate in outputs), None)
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
        vectors = Session(model.SerializeToString(), takes=TOKENS).run(rows)
    except Exception as error:  # onnxruntime's own classes, none of them public
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise DataInvalid(f"ONNX Runtime cannot run {name} on two texts ({reason})", fix=WITHOUT) from error
    if vectors.ndim != 2 or len(vectors) != 2:
        raise DataInvalid(f"{name} answers {vectors.shape} to two texts", fix=WITHOUT)
    return int(vectors.shape[1])
