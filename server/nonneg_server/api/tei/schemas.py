"""TEI's requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nonneg_server.api.openapi import FINGERPRINT, URI, Shape
from nonneg_server.requests.parameters import PositiveCount


class TeiEmbedRequest(BaseModel):
    """The body of POST /embed with `inputs`, and of POST /embed_sparse; `model` and `top_k` are ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: Annotated[
        Any,
        Field(description="One or a list: base64, data URIs, URLs; all else is text."),
    ]
    dimensions: PositiveCount | None = None
    normalize: bool = True
    truncate: Annotated[bool | None, Field(description="Of a text that is too long, read the first words.")] = None
    truncation_direction: Annotated[
        Literal["Right", "right"] | None, Field(description="The end of a text is what is left out.")
    ] = None
    prompt_name: Annotated[None, Field(description="Images take no prompts.")] = None
    model: Annotated[str | None, Field(description="A served model's name; without it, the default one.")] = None
    top_k: PositiveCount | None = None


ErrorType = Literal["validation", "overloaded", "unhealthy", "backend"]


class TeiFailure(Shape):
    """TEI's error body."""

    error: str
    error_type: ErrorType


class TeiSparseValue(Shape):
    index: int
    value: float


class TeiInfo(Shape):
    model_id: str
    model_sha: str
    model_dtype: str
    model_type: dict[str, Any]
    served_model_name: str
    embedding_size: int
    max_client_batch_size: int
    max_concurrent_requests: int
    tokenization_workers: int
    payload_limit: int
    version: str


INFO: TeiInfo = {
    "model_id": "photo",
    "model_sha": FINGERPRINT,
    "model_dtype": "float32",
    "model_type": {"embedding": {"pooling": "model"}},
    "served_model_name": "photo",
    "embedding_size": 1280,
    "max_client_batch_size": 256,
    "max_concurrent_requests": 512,
    "tokenization_workers": 2,
    "payload_limit": 67108864,
    "version": "0.1.0",
}
ASKED = {"inputs": [URI], "dimensions": 8}
EMBEDDED = [[0.816, 0, 0, 0.408, 0, 0, 0, 0.41]]
SPARSE: list[list[TeiSparseValue]] = [
    [{"index": 0, "value": 0.816}, {"index": 3, "value": 0.408}, {"index": 7, "value": 0.41}]
]
