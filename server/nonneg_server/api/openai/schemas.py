"""OpenAI's requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field

from nonneg_server.api.openapi import URI, Shape
from nonneg_server.requests.parameters import Errors, PositiveCount

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
    model: Annotated[str, Field(description="A served model's name.")]
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
EMBEDDINGS: OpenAIEmbeddings = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.816, 0, 0, 0.408, 0, 0, 0, 0.41]}],
    "model": "photo",
    "usage": {"prompt_tokens": 0, "total_tokens": 0},
}
MODEL: OpenAIModel = {"id": "photo", "object": "model", "created": 1763424000, "owned_by": "nonneg"}
MODELS: OpenAIModels = {"object": "list", "data": [MODEL]}
