"""OpenAI's embeddings: `input` holds images, as data URIs, base64, URLs or `{"image": …}` objects."""

from __future__ import annotations

from typing import Any

import orjson

from nonneg_core.errors import NonnegError, NotReady, Overloaded, ParameterInvalid, Unauthorized
from nonneg_runtime.bundle import Bundle
from nonneg_server.answers.as_json import text
from nonneg_server.api.openai.schemas import EmbeddingsRequest, OpenAIFailure, OpenAIModel
from nonneg_server.embedding import Answer
from nonneg_server.requests.images import Incoming, Limits, check_count
from nonneg_server.requests.parameters import Parameters, from_json
from nonneg_server.requests.texts import content_from, input_from


def read(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters]:
    """Return the images and what is asked of them."""
    wanted = from_json(EmbeddingsRequest, given)
    parameters = Parameters(
        model=wanted.model,
        dimensions=wanted.dimensions,
        top_k=wanted.top_k,
        normalize=wanted.normalize,
        encoding="base64" if wanted.encoding_format == "base64" else "float",
        format="dense",
        errors=wanted.errors,
    )
    return _images(wanted, limits), parameters


def _images(wanted: EmbeddingsRequest, limits: Limits) -> list[Incoming]:
    if "input" not in wanted.model_fields_set and wanted.messages is None:
        raise ParameterInvalid("input is missing", fix="give input, or messages", field="input")
    if wanted.messages is not None:
        if "input" in wanted.model_fields_set:
            raise ParameterInvalid("input and messages are given", fix="give one of them", field="messages")
        return [_of_messages(wanted.messages, limits)]
    entries = wanted.input if isinstance(wanted.input, list) else [wanted.input]
    if entries and isinstance(entries[0], (int, list)):
        raise ParameterInvalid("input holds tokens", fix="send images as data URIs, or text", field="input")
    check_count(len(entries), limits.images, "input")
    return [_of_entry(entry, f"input[{i}]", limits) for i, entry in enumerate(entries)]


def _of_entry(entry: Any, field: str, limits: Limits) -> Incoming:
    has_content = isinstance(entry, dict) and "content" in entry
    return content_from(entry, field, limits) if has_content else input_from(entry, field, limits)


def _of_messages(messages: list[Any], limits: Limits) -> Incoming:
    """Return the one image of a conversation, which has one vector however many messages it is of."""
    parts: list[Any] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        parts += content if isinstance(content, list) else [content]
    return content_from({"content": parts}, "messages", limits)


def write(answer: Answer, field: str = "input") -> bytes:
    """List embeddings, zeros where an image has its error; images have no tokens, so that none are counted."""
    z = answer.rows
    rows = map(text, z.astype("<f4", copy=False)) if answer.parameters.encoding == "base64" else iter(z)
    data: list[dict[str, Any]] = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    for i, error in answer.errors.items():
        error.field = f"{field}[{i}]"
        data[i].update(error_body(error, ""))
    body = {
        "object": "list",
        "data": data,
        "model": answer.manifest.name,
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def model_card(bundle: Bundle) -> OpenAIModel:
    """Return a model as GET /v1/models lists it."""
    return {"id": bundle.manifest.name, "object": "model", "created": bundle.written, "owned_by": "nonneg"}


def error_body(error: NonnegError, _: str) -> OpenAIFailure:
    """Return OpenAI's error: all four keys, always."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    for family, name in ((Overloaded, "rate_limit_error"), (Unauthorized, "authentication_error")):
        kind = name if isinstance(error, family) else kind
    kind = "server_error" if isinstance(error, NotReady) else kind
    return {"error": {"message": str(error), "type": kind, "param": error.field, "code": error.type}}
