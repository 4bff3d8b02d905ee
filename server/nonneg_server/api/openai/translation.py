"""OpenAI's embeddings: `input` holds images, as data URIs, base64, URLs or `{"image": …}` objects."""

from __future__ import annotations

from typing import Any

import orjson

from nonneg_core.errors import NonnegError, NotReady, Overloaded, ParameterInvalid, Unauthorized
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.manifest import FILE_NAME
from nonneg_server.answers.as_json import text
from nonneg_server.api.openai.schemas import EmbeddingsRequest, OpenAIFailure, OpenAIModel
from nonneg_server.embedding import Answer
from nonneg_server.requests.images import Incoming, Limits, images_from
from nonneg_server.requests.parameters import Parameters, from_json


def read(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters]:
    """The images and what is asked of them."""
    wanted = from_json(EmbeddingsRequest, given)
    entries = wanted.input if isinstance(wanted.input, list) else [wanted.input]
    if entries and isinstance(entries[0], (int, list)):
        raise ParameterInvalid("input holds tokens", fix="send images as data URIs", field="input")
    parameters = Parameters(
        model=wanted.model,
        dimensions=wanted.dimensions,
        top_k=wanted.top_k,
        normalize=wanted.normalize,
        encoding="base64" if wanted.encoding_format == "base64" else "float",
        format="dense",
        errors=wanted.errors,
    )
    return images_from(entries, "input", limits), parameters


def write(answer: Answer) -> bytes:
    """A list of embeddings, empty where an image has its error; images have no tokens, so that none are counted."""
    z, base64 = answer.vectors[0], answer.parameters.encoding == "base64"
    rows = map(text, z.astype("<f4", copy=False)) if base64 else iter(z)
    found: dict[int, dict[str, Any]] = {
        i: {"object": "embedding", "index": i, "embedding": row} for i, row in zip(answer.positions, rows, strict=True)
    }
    for i, error in answer.errors.items():
        error.field = f"input[{i}]"
        empty: Any = "" if base64 else []
        found[i] = {"object": "embedding", "index": i, "embedding": empty, **error_body(error, "")}
    data = [found[i] for i in sorted(found)]
    body = {
        "object": "list",
        "data": data,
        "model": answer.manifest.name,
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def model_card(bundle: Bundle) -> OpenAIModel:
    """A model as GET /v1/models lists it."""
    created = int((bundle.path / FILE_NAME).stat().st_mtime)
    return {"id": bundle.manifest.name, "object": "model", "created": created, "owned_by": "nonneg"}


def error_body(error: NonnegError, _: str) -> OpenAIFailure:
    """OpenAI's error: all four keys, always."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    for family, name in ((Overloaded, "rate_limit_error"), (Unauthorized, "authentication_error")):
        kind = name if isinstance(error, family) else kind
    kind = "server_error" if isinstance(error, NotReady) else kind
    return {"error": {"message": str(error), "type": kind, "param": error.field, "code": error.type}}
