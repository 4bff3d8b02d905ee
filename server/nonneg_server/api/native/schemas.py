"""The native API's answers; orjson writes the real ones without these types."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config

from nonneg_core.pixels.view import View
from nonneg_runtime.manifest import Precision
from nonneg_runtime.names import Source
from nonneg_server.api.openapi import FINGERPRINT, Shape


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

    indices: NotRequired[Indices]
    values: NotRequired[Numbers]
    embedding: NotRequired[Numbers]
    scale: NotRequired[float]
    packed: NotRequired[Annotated[str, Field(description="With encoding=compact: indices and values, in base64.")]]
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


class Evidence(Shape):
    """Why a dimension has its name."""

    source: Source
    says: Annotated[str, Field(description="The evidence in words.")]
    precision: Annotated[float | None, Field(description="Share of the name among its strongest photos.")]
    photos: Annotated[int, Field(description="Of the name, among those that the precision was measured on.")]
    rank: Annotated[int | None, Field(description="Place of the one photo there is, held out: weaker evidence.")]


class Contribution(Shape):
    dimension: int
    name: str | None
    common: str | None
    evidence: Evidence | None
    details: str
    examples: list[str]
    values: list[float]
    contribution: float
    share: float
    cells: NotRequired[list[list[list[float]]]]


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
    boxes: NotRequired[list[list[float]]]


class Weighting(Shape):
    """One part of a query: a sparse vector of length one; what is subtracted is below zero."""

    indices: list[int]
    values: list[float]
    nnz: int


class Unwanted(Shape):
    dimension: int
    name: str | None


class QueryAnswer(Shape):
    """What an expression stands for: the smallest of the cosines with all parts counts; nothing of `without` may be.

    `chance`: the score that few random photos reach; below it a hit says nothing.
    """

    model: str
    fingerprint: str
    dimensions: int
    expression: str
    parts: list[Weighting]
    chance: float
    without: list[Unwanted]


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


@with_config(ConfigDict(extra="allow"))
class ModelDetails(Shape):
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


class ListedDimension(Shape):
    dimension: int
    name: str | None
    common: Annotated[str | None, Field(description="The name in everyday words, where that differs.")]
    evidence: Evidence | None
    frequency: float
    expected_activation: float
    details: str


class DimensionList(Shape):
    """A page of a model's dimensions; `total` are on all pages, `named` have a name in the whole model."""

    model: str
    fingerprint: str
    named: int
    unnamed: Annotated[str | None, Field(description="Why the others have no name.")]
    total: int
    offset: int
    dimensions: list[ListedDimension]


class DimensionDetails(Shape):
    model: str
    fingerprint: str
    dimension: int
    name: str | None
    common: str | None
    evidence: Evidence | None
    unnamed: Annotated[str | None, Field(description="Why it has no name, where the model says so.")]
    original: int
    expected_activation: float
    frequency: float
    variance: float
    calibration_images: int
    examples: list[Example]


class Health(Shape):
    status: Literal["alive", "ready"]


_HEAD = {"model": "photo", "fingerprint": FINGERPRINT}
_VECTOR = {"index": 0, "indices": [0, 3, 7], "values": [0.816, 0.408, 0.41], "nnz": 3, "zero": False}
_ERROR = {
    "type": "image_unreadable",
    "message": "a JPEG of 14513 bytes that breaks off or is damaged",
    "field": "images[1]",
    "value": None,
    "limit": None,
    "fix": "send the whole file; re-save it if other programs cannot open it either",
}
_VIEW = {"size": 224, "fit": "cover", "crop": 0.875, "interpolation": "bicubic", "background": [255, 255, 255]}
_MODEL = {"name": "photo", "version": "1", "fingerprint": FINGERPRINT, "dimensions": 1280, "precision": "fp16"}
_LENGTH = {
    "dimensions": 512,
    "top_k": None,
    "p_at_1": 0.91,
    "p_at_10": 0.86,
    "map_at_k": 0.8,
    "knn": 0.92,
    "zero_share": 0.0,
    "mean_nnz": 118.2,
    "bytes": 472.8,
}
_NAME = {
    "name": "tabby",
    "common": "cat",
    "evidence": {
        "source": "direction",
        "says": "10 of its 10 strongest photos show it",
        "precision": 1.0,
        "photos": 20,
        "rank": 1,
    },
}
EMBEDDED: Any = {
    **_HEAD,
    "dimensions": 8,
    "top_k": 3,
    "normalized": True,
    "encoding": "float",
    "data": [_VECTOR, {"index": 1, "error": _ERROR}],
}
EXPLAINED: Any = {
    **_HEAD,
    "dimensions": 1280,
    "cosine": 0.83,
    "shared": 212,
    "nnz": [301, 288],
    "contributions": [
        {
            "dimension": 17,
            **_NAME,
            "details": "/models/photo/dimensions/17",
            "examples": ["/models/photo/dimensions/17/examples/0"],
            "values": [0.42, 0.38],
            "contribution": 0.16,
            "share": 0.193,
        }
    ],
    "rest": 0.67,
}
QUERIED: Any = {
    **_HEAD,
    "dimensions": 8,
    "expression": "a.png + dim:3 !dim:5",
    "parts": [{"indices": [0, 3, 7], "values": [0.3, 0.91, 0.28], "nnz": 3}],
    "chance": 0.21,
    "without": [{"dimension": 5, "name": "snow"}],
}
MODELS: Any = {"models": [{**_MODEL, "description": "The model that comes with nonneg.", "view": _VIEW}]}
MODEL: Any = {**_MODEL, "lengths": [_LENGTH]}
DIMENSION: Any = {
    **_HEAD,
    "dimension": 17,
    **_NAME,
    "unnamed": None,
    "original": 903,
    "expected_activation": 0.021,
    "frequency": 0.31,
    "variance": 0.0012,
    "calibration_images": 5000,
    "examples": [{"image": "/models/photo/dimensions/17/examples/0", "activation": 0.42, "label": "tabby"}],
}
DIMENSIONS: Any = {
    **_HEAD,
    "named": 836,
    "unnamed": None,
    "total": 1,
    "offset": 0,
    "dimensions": [
        {
            "dimension": 17,
            **_NAME,
            "frequency": 0.31,
            "expected_activation": 0.021,
            "details": "/models/photo/dimensions/17",
        }
    ],
}
ALIVE: Health = {"status": "alive"}
