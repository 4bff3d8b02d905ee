"""Cohere's v2 embed: images in one of two shapes, several embedding types in one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from nonneg_core.errors import NonnegError, ParameterInvalid
from nonneg_core.packing import bits
from nonneg_core.shortening import Vectors
from nonneg_server.answers.as_json import text
from nonneg_server.api.cohere.schemas import CohereFailure, EmbedBody, EmbeddingType
from nonneg_server.embedding import Answer
from nonneg_server.requests.images import Incoming, Limits, check_count, images_from
from nonneg_server.requests.parameters import Parameters, from_json
from nonneg_server.requests.texts import content_from, texts_from


def read(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters, list[EmbeddingType]]:
    """Return the images, what is asked of them, and the types to answer in."""
    wanted = from_json(EmbedBody, given)
    if sum(given is not None for given in (wanted.images, wanted.inputs, wanted.texts)) != 1:
        raise ParameterInvalid(
            "exactly one of images, texts and inputs is due", fix="send images: [data URI]", field="images"
        )
    truncate = wanted.truncate == "END"
    if wanted.images is not None:
        images = images_from(wanted.images, "images", limits)
    elif wanted.texts is not None:
        images = texts_from(wanted.texts, "texts", limits, truncate=truncate)
    else:
        check_count(len(wanted.inputs or []), limits.images, "inputs")
        listed = enumerate(wanted.inputs or [])
        images = [content_from(entry, f"inputs[{i}]", limits, truncate=truncate) for i, entry in listed]
    parameters = Parameters(
        model=wanted.model, dimensions=wanted.output_dimension, format="dense", errors=wanted.errors
    )
    return images, parameters, list(dict.fromkeys(wanted.embedding_types))


def write(answer: Answer, kinds: list[EmbeddingType], request_id: str) -> bytes:
    """Return every asked-for type of the same vectors; where an image has its error, each type has zeros."""
    z = answer.rows  # (images, k), of length one or zero: every value lies in 0..1
    failed = [{"index": i, "type": error.type, "message": str(error)} for i, error in sorted(answer.errors.items())]
    meta: dict[str, Any] = {"api_version": {"version": "2"}, "billed_units": {"images": len(answer.positions)}}
    body: dict[str, Any] = {
        "id": request_id,
        "response_type": "embeddings_by_type",
        "embeddings": {kind: _typed(z, kind) for kind in kinds},
        "texts": [],
        "meta": meta,
    }
    if failed:
        meta["warnings"] = [f"image {found['index']}: {found['message']}" for found in failed]
        body["errors"] = failed
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def error_body(error: NonnegError, request_id: str) -> CohereFailure:
    """Return the body of a failure as Cohere's clients read it."""
    return {"id": request_id, "message": str(error)}


def _typed(z: Vectors, kind: EmbeddingType) -> Any:
    """Return fixed scales, as Cohere's clients expect them: 127 and 255 stand for one."""
    if kind == "float":
        return list(z)
    if kind == "base64":
        return [text(row.astype("<f4")) for row in z]
    if kind == "int8":
        return np.rint(z * 127).astype(np.int8)
    if kind == "uint8":
        return np.rint(z * 255).astype(np.uint8)
    packed = bits(z)
    return packed if kind == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)
