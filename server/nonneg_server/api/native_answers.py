"""The native API's answers; orjson writes the real ones without these types."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config

from nonneg_core.pixels.view import View
from nonneg_runtime.bundle.manifest import Precision
from nonneg_runtime.words.names import NameSource
from nonneg_server.api.route import Shape


class ErrorDetail(Shape):
    """What is wrong, with which value, and how to mend it."""

    type: str
    message: str
    field: str | None
    value: str | int | float | bool | None
    limit: str | int | float | bool | None
    fix: str | None


class ErrorAnswer(Shape):
    """The body of every error answer of the native routes."""

    error: ErrorDetail
    request_id: str


EncodedVector = Annotated[list[float] | str, Field(description="Numbers; with any encoding but float, base64.")]
Indices = Annotated[list[int] | str, Field(description="Sorted and unique; with any encoding but float, base64.")]


class Vector(Shape):
    """One vector at one length: sparse, dense or both."""

    indices: NotRequired[Indices]
    values: NotRequired[EncodedVector]
    embedding: NotRequired[EncodedVector]
    scale: NotRequired[float]
    packed: NotRequired[
        Annotated[str, Field(description="With encoding=compact indices and values, with binary bits; base64.")]
    ]
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

    source: NameSource
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


class UnlikeRow(Weighting):
    line: float


class QueryAnswer(Shape):
    """What an expression stands for: the smallest of the cosines with all parts counts; nothing of `without` may be.

    `chance`: the score that few random photos reach; below it a hit says nothing. `unlike`: what must not be
    there; a hit has a cosine below `line` with each.
    """

    model: str
    fingerprint: str
    dimensions: int
    expression: str
    parts: list[Weighting]
    chance: float
    without: list[Unwanted]
    unlike: list[UnlikeRow]


class Reason(Shape):
    dimension: int
    name: str | None
    part: Annotated[float, Field(description="Of the score.")]


class FoundPhoto(Shape):
    """A photo of the index; `match`: false where a random photo may score as much."""

    id: str
    score: float
    match: bool | None
    payload: dict[str, Any]
    reasons: list[Reason]
    thumbnail: NotRequired[Annotated[str, Field(description="Its address, where the studio shows the photo.")]]


class SearchAnswer(Shape):
    """The photos that are nearest, the nearest first; `exact`: whether all were compared, or candidates alone."""

    model: str
    fingerprint: str
    dimensions: int
    exact: bool
    hits: list[FoundPhoto]


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
    """The manifest without its columns, the measured quality of each length, and how the images that came differ."""

    name: str
    version: str
    fingerprint: str
    dimensions: int
    lengths: list[dict[str, Any]]
    drift: Annotated[
        list[str],
        Field(description="In words, ten at most: what is active more or less often than on the calibration photos."),
    ]


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
    variance: float
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
