"""The answers' shapes, for the OpenAPI document; orjson writes the real ones without these models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.pixels.view import View
from nonneg_runtime.manifest import Precision


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
