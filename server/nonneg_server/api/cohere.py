"""Cohere's v2 embed API: images in one of two shapes, several embedding types in one answer."""

from functools import partial
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.errors import NonnegError, ParameterInvalid
from nonneg_core.shortening import Vectors
from nonneg_server.api.route import URI, Dialect, Route, Shape, documented, embedding, json_body
from nonneg_server.pipeline.answer_forms import text
from nonneg_server.pipeline.request_pipeline import Answer, reply, serve, written
from nonneg_server.requests.bodies import read_object
from nonneg_server.requests.inputs import Incoming, Limits, content_from, each, image_from, text_from
from nonneg_server.requests.parameters import Errors, Parameters, PositiveCount, from_json

EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]


class EmbedBody(BaseModel):
    """The body of POST /v2/embed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[str, Field(description="A served model's name, or NAME@FINGERPRINT to take no other.")]
    input_type: Annotated[str, Field(description="Every type is embedded alike; `image` is the honest one.")] = "image"
    images: list[Any] | None = None
    inputs: list[Any] | None = None
    texts: list[Any] | None = None
    embedding_types: Annotated[list[EmbeddingType], Field(min_length=1, max_length=32)] = ["float"]
    output_dimension: PositiveCount | None = None
    max_tokens: int | None = None
    truncate: Literal["NONE", "END"] | None = None
    priority: int | None = None
    errors: Errors = "fail"


class CohereFailure(Shape):
    """Cohere's error body."""

    id: str
    message: str


class CohereItemError(Shape):
    index: int
    type: str
    message: str


class CohereAnswer(Shape):
    id: str
    response_type: Literal["embeddings_by_type"]
    embeddings: dict[str, list[Any]]
    texts: list[str]
    meta: dict[str, Any]
    errors: NotRequired[Annotated[list[CohereItemError], Field(description="Images whose rows are zeros.")]]


ASKED = {"model": "photo", "input_type": "image", "images": [URI], "embedding_types": ["float", "ubinary"]}
ANSWER: CohereAnswer = {
    "id": "5f0c…",
    "response_type": "embeddings_by_type",
    "embeddings": {"float": [[0.816, 0, 0, 0.408, 0, 0, 0, 0.41]], "ubinary": [[145]]},
    "texts": [],
    "meta": {"api_version": {"version": "2"}, "billed_units": {"images": 1}, "model": "photo@9e3ce24a"},
}


def read(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters, list[EmbeddingType]]:
    """Return the images, what is asked of them, and the types to answer in."""
    request = from_json(EmbedBody, given)
    if sum(given is not None for given in (request.images, request.inputs, request.texts)) != 1:
        raise ParameterInvalid(
            "exactly one of images, texts and inputs is due", fix="send images: [data URI]", field="images"
        )
    truncate = request.truncate == "END"
    if request.images is not None:
        images = each(request.images, "images", limits, image_from)
    elif request.texts is not None:
        images = each(request.texts, "texts", limits, text_from, truncate=truncate)
    else:
        images = each(request.inputs or [], "inputs", limits, content_from, truncate=truncate)
    parameters = Parameters(
        model=request.model, dimensions=request.output_dimension, format="dense", errors=request.errors
    )
    return images, parameters, list(dict.fromkeys(request.embedding_types))


def write(answer: Answer, kinds: list[EmbeddingType], request_id: str) -> bytes:
    """Return every asked-for type of the same vectors; where an image has its error, each type has zeros."""
    z = answer.rows  # (images, k), of length one or zero: every value lies in 0..1
    failed = [{"index": i, "type": error.type, "message": str(error)} for i, error in sorted(answer.errors.items())]
    meta: dict[str, Any] = {
        "api_version": {"version": "2"},
        "billed_units": {"images": len(answer.positions)},
        "model": answer.manifest.pinned,
    }
    body: dict[str, Any] = {
        "id": request_id,
        "response_type": "embeddings_by_type",
        "embeddings": {kind: _bits(answer, kind) if "binary" in kind else _typed(z, kind) for kind in kinds},
        "texts": [],
        "meta": meta,
    }
    if failed:
        meta["warnings"] = [f"image {failure['index']}: {failure['message']}" for failure in failed]
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
    return np.rint(z * 255).astype(np.uint8)


def _bits(answer: Answer, kind: EmbeddingType) -> Any:
    """Return the first bits as bytes, with `binary` less 128; where an image has its error, as zeros have them."""
    packed = answer.bits
    return packed if kind == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)


# Cohere's route: POST /v2/embed.

router = APIRouter(route_class=Route, tags=["Cohere"])


@router.post("/v2/embed", summary="Embed images, as Cohere's clients ask for it")
@embedding
@documented(CohereAnswer, ANSWER, body=json_body(EmbedBody, ASKED))
async def post_embed(request: Request) -> Response:
    images, parameters, kinds = read(await read_object(request), request.app.state.settings.limits)
    answer = await serve(request, images, parameters)
    content = partial(write, kinds=kinds, request_id=request.scope["state"]["request_id"])
    return reply(await written(answer, content), answer)


COHERE = Dialect("cohere", ("/v2/embed",), error_body, CohereFailure, tuple(router.routes))
