"""The shapes of the answers that other APIs' clients expect: OpenAI's, Cohere's, KServe's and TEI's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from nonneg_server.api.native.schemas import Shape


class OpenAIErrorDetail(Shape):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIFailure(Shape):
    """OpenAI's error body."""

    error: OpenAIErrorDetail


class CohereFailure(Shape):
    """Cohere's error body."""

    id: str
    message: str


class KServeFailure(Shape):
    """KServe's error body."""

    error: str


class OpenAIEmbedding(Shape):
    object: Literal["embedding"]
    index: int
    embedding: Annotated[list[float] | str, Field(description="Empty where there is an error instead.")]
    error: OpenAIErrorDetail | None = None


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
    errors: Annotated[list[CohereItemError] | None, Field(description="Images whose rows are empty.")] = None


class KServeServer(Shape):
    name: str
    version: str
    extensions: list[str]


class KServeLive(Shape):
    live: bool


class KServeReady(Shape):
    ready: bool


class KServeModelReady(Shape):
    name: str
    ready: bool


class KServeTensor(Shape):
    name: str
    datatype: str
    shape: list[int]


class KServeModel(Shape):
    name: str
    versions: list[str]
    platform: str
    inputs: list[KServeTensor]
    outputs: list[KServeTensor]


class KServeOutput(Shape):
    name: str
    datatype: str
    shape: list[int]
    data: list[float | str] | None = None
    parameters: dict[str, Any] | None = None


class KServeAnswer(Shape):
    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[KServeOutput]
    parameters: dict[str, Any]


class KServeIndexRow(Shape):
    name: str
    version: str
    state: Literal["READY", "UNAVAILABLE"]
    reason: str


class KServeIndex(RootModel[list[KServeIndexRow]]):
    """Every model that is served or could be."""


class KServeDone(Shape):
    """Nothing more to say."""


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
