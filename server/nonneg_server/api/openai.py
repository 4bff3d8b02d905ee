"""OpenAI's embeddings API: POST /v1/embeddings, whose `input` holds images, and GET /v1/models."""

from functools import partial
from typing import Annotated, Any, Literal, NotRequired

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.errors import NonnegError, NotReady, Overloaded, ParameterInvalid, Unauthorized
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.api.route import (
    EXAMPLES,
    URI,
    Dialect,
    Route,
    Shape,
    documented,
    embedding,
    json_body,
    json_response,
)
from nonneg_server.pipeline.answer_forms import text
from nonneg_server.pipeline.request_pipeline import Answer, reply, serve, written
from nonneg_server.requests.bodies import read_object
from nonneg_server.requests.inputs import Incoming, Limits, content_from, each, input_from
from nonneg_server.requests.parameters import Errors, Parameters, PositiveCount, from_json

_OfText = Annotated[bool | None, Field(description="Of text, which images have none of; sent beside messages.")]


class EmbeddingsRequest(BaseModel):
    """The body of POST /v1/embeddings; `top_k`, `normalize` and `errors` are ours, for `extra_body`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Annotated[
        Any,
        Field(description="Images or texts: one or a list, bare, in objects, or as {content: [{type: image_url, …}]}."),
    ] = None
    messages: Annotated[
        list[Any] | None, Field(description="In place of input, one image: [{role, content: [{type: image_url, …}]}].")
    ] = None
    model: Annotated[str, Field(description="A served model's name, or NAME@FINGERPRINT to take no other.")]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: PositiveCount | None = None
    user: str | None = None
    modality: Literal["image", "text"] = "image"
    top_k: PositiveCount | None = None
    normalize: bool = True
    errors: Errors = "fail"
    add_generation_prompt: _OfText = None
    add_special_tokens: _OfText = None
    continue_final_message: _OfText = None


class OpenAIErrorDetail(Shape):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIFailure(Shape):
    """OpenAI's error body."""

    error: OpenAIErrorDetail


class OpenAIEmbedding(Shape):
    object: Literal["embedding"]
    index: int
    embedding: Annotated[list[float] | str, Field(description="Zeros where there is an error.")]
    error: NotRequired[OpenAIErrorDetail]


class Usage(Shape):
    prompt_tokens: int
    total_tokens: int


class OpenAIEmbeddings(Shape):
    object: Literal["list"]
    data: list[OpenAIEmbedding]
    model: str
    usage: Usage


class OpenAIModel(Shape):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class OpenAIModels(Shape):
    object: Literal["list"]
    data: list[OpenAIModel]


ASKED = {"model": "photo", "input": [URI], "dimensions": 8}


# OpenAI's embeddings: `input` holds images, as data URIs, base64, URLs or `{"image": …}` objects.


def read(given: dict[str, Any], limits: Limits) -> tuple[list[Incoming], Parameters]:
    """Return the images and what is asked of them."""
    request = from_json(EmbeddingsRequest, given)
    parameters = Parameters(
        model=request.model,
        dimensions=request.dimensions,
        top_k=request.top_k,
        normalize=request.normalize,
        encoding="base64" if request.encoding_format == "base64" else "float",
        format="dense",
        errors=request.errors,
    )
    return _images(request, limits), parameters


def _images(request: EmbeddingsRequest, limits: Limits) -> list[Incoming]:
    if "input" not in request.model_fields_set and request.messages is None:
        raise ParameterInvalid("input is missing", fix="give input, or messages", field="input")
    if request.messages is not None:
        if "input" in request.model_fields_set:
            raise ParameterInvalid("input and messages are given", fix="give one of them", field="messages")
        return [_of_messages(request.messages, limits)]
    entries = request.input if isinstance(request.input, list) else [request.input]
    if entries and isinstance(entries[0], (int, list)):
        raise ParameterInvalid("input holds tokens", fix="send images as data URIs, or text", field="input")
    return each(entries, "input", limits, _of_entry)


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
        "model": answer.manifest.pinned,
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


# OpenAI's routes: POST /v1/embeddings and GET /v1/models.

router = APIRouter(route_class=Route, tags=["OpenAI"])


@router.post("/v1/embeddings", summary="Embed images, as OpenAI's clients ask for it")
@embedding
@documented(OpenAIEmbeddings, EXAMPLES["openai_embeddings"], body=json_body(EmbeddingsRequest, ASKED))
async def post_embeddings(request: Request) -> Response:
    given = await read_object(request)
    field = "messages" if "messages" in given else "input"
    images, parameters = read(given, request.app.state.settings.limits)
    answer = await serve(request, images, parameters, field=field)
    return reply(await written(answer, partial(write, field=field)), answer)


@router.get("/v1/models", summary="The models served here, as OpenAI lists them")
@documented(OpenAIModels, EXAMPLES["openai_models"])
async def get_models(request: Request) -> Response:
    cards = [model_card(engine.bundle) for engine in request.app.state.registry.all()]
    return json_response({"object": "list", "data": cards})


@router.get("/v1/models/{model}", summary="One model, as OpenAI describes it")
@documented(OpenAIModel, EXAMPLES["openai_model"])
async def get_model(request: Request) -> Response:
    card = model_card(request.app.state.registry.get(request.path_params["model"]).bundle)
    return json_response(card)


OPENAI = Dialect("openai", ("/v1",), error_body, OpenAIFailure, tuple(router.routes))
