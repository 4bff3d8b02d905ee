"""Cohere's requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field

from nonneg_server.api.openapi import URI, Shape
from nonneg_server.requests.parameters import Errors, PositiveCount

EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]


class EmbedBody(BaseModel):
    """The body of POST /v2/embed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
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
    "meta": {"api_version": {"version": "2"}, "billed_units": {"images": 1}},
}
