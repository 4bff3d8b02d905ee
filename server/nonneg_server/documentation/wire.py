"""The answers' shapes, for the OpenAPI document; orjson writes the real ones without these models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from nonneg_client.pixels.view import View
from nonneg_export.manifest import Precision


class Shape(BaseModel):
    """Exactly these keys."""

    model_config = ConfigDict(extra="forbid")


class ErrorDetail(Shape):
    """What is wrong, with which value, and how to mend it."""

    type: str
    message: str
    field: str | None
    value: str | int | float | bool | None
    limit: str | int | float | bool | None
    fix: str | None


class Failure(Shape):
    """The body of every error answer of the native routes."""

    error: ErrorDetail
    request_id: str


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


Numbers = Annotated[list[float] | str, Field(description="Numbers; with any encoding but float, base64.")]
Indices = Annotated[list[int] | str, Field(description="Sorted and unique; with any encoding but float, base64.")]


class Vector(Shape):
    """One vector at one length: sparse, dense or both."""

    indices: Indices | None = None
    values: Numbers | None = None
    embedding: Numbers | None = None
    scale: float | None = None
    nnz: Annotated[int, Field(description="Active dimensions.")]
    zero: Annotated[bool, Field(description="Whether nothing is left of it.")]


class IndexedVector(Vector):
    index: int


class VectorAtLength(Vector):
    dimensions: int


class VectorsAtLengths(Shape):
    """One image at every length that was asked for."""

    index: int
    lengths: list[VectorAtLength]


class FailedItem(Shape):
    """An image that could not be read, in its place."""

    index: int
    error: ErrorDetail


class EmbedAnswer(Shape):
    """Vectors in the order of the images."""

    model: str
    fingerprint: str
    dimensions: int | list[int]
    top_k: int | None
    normalized: bool
    encoding: str
    data: list[IndexedVector | VectorsAtLengths | FailedItem]


class Contribution(Shape):
    dimension: int
    name: str | None
    details: str
    examples: list[str]
    values: list[float]
    contribution: float
    share: float


class ExplainAnswer(Shape):
    """A cosine and the dimensions it is made of: contributions and rest sum to it."""

    model: str
    fingerprint: str
    dimensions: int
    cosine: float
    shared: int
    nnz: list[int]
    contributions: list[Contribution]
    rest: float


class ModelSummary(Shape):
    name: str
    version: str
    description: str
    fingerprint: str
    dimensions: int
    precision: Precision
    view: View


class ModelList(Shape):
    models: list[ModelSummary]


class ModelDetails(BaseModel):
    """The manifest without its columns, and the measured quality of each length."""

    name: str
    version: str
    fingerprint: str
    dimensions: int
    lengths: list[dict[str, Any]]


class Example(Shape):
    image: str
    activation: float
    label: str | None


class DimensionDetails(Shape):
    model: str
    fingerprint: str
    dimension: int
    name: str | None
    original: int
    expected_activation: float
    frequency: float
    variance: float
    calibration_images: int
    examples: list[Example]


class Health(Shape):
    status: Literal["alive", "ready"]


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
