"""What was measured of a model and is kept in its manifest: self-test, checks, quality by length, gains."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from nonneg_core.evaluation.quality_row import QualityRow


class ManifestRecord(BaseModel):
    """A part of the manifest: frozen, and without fields that are not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Golden(ManifestRecord):
    """What the encoder answers to the test pattern: the self-test wherever it is loaded."""

    indices: tuple[int, ...]
    values: tuple[float, ...]
    tolerance: float = Field(default=0.999, description="least cosine between this vector and the live one")


class Check(ManifestRecord):
    """One verification that held when the bundle was made."""

    name: str
    what: str
    value: float
    limit: float


class Structure(ManifestRecord):
    """What the dimensions are like, each measured on the full, row-normalised vectors."""

    sparsity: float = Field(description="share of entries below 1e-5")
    correlation: float = Field(description="mean absolute cosine between two different live columns")
    consistency: float = Field(description="share of the most frequent class among a dimension's images, weighted")
    consistency_floor: float = Field(description="the same for shuffled labels")
    consistency_unweighted: float
    consistency_unweighted_floor: float
    sepin: dict[str, float] = Field(description="mean over the first k dimensions of what only they know")
    sepin_estimator: str = ""
    sepin_intervals: dict[str, tuple[float, float]] = Field(default={}, description="of 95 %, over images")

    @model_serializer(mode="wrap")
    def _without_intervals_that_are_not_known(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is not known: manifests of before this field keep the digest that seals them."""
        found: dict[str, Any] = write(self)
        if not self.sepin_intervals:
            found.pop("sepin_intervals", None)
        return found


class Quality(ManifestRecord):
    """The measured cost of shortening, on images that neither trained nor ranked the model."""

    data: str
    images: int
    classes: int
    lonely_classes: int = Field(default=0, description="with one image: it can be found, but has nothing to find")
    queries: int = Field(description="all images, each against all others; or a sample of them against the rest")
    k: int = Field(description="the k of map_at_k, and AP's denominator is min(R, k)")
    neighbours: int = Field(description="how many vote in kNN")
    seeds: int = Field(description="random selections averaged in a row")
    live_dimensions: int
    structure: Structure
    rows: tuple[QualityRow, ...]
    method: str = Field(default="", description="how it was measured")


class KeptRow(ManifestRecord):
    """What one length keeps of the features that the vectors were made of."""

    dimensions: int
    neighbours: float = Field(description="of each photo's nearest by the features, the share still among them")
    zero_share: float = Field(description="share of the vectors of which nothing is left")
    mean_nnz: float
    bytes: float = Field(description="a vector: float32 dense, or 2-byte index and float16 value, whichever is smaller")


class Kept(ManifestRecord):
    """What the step from an encoder's own features to non-negative columns costs, measured without labels."""

    data: str
    images: int = Field(description="photos that were not used to compute the head")
    nearest: int = Field(description="how many neighbours a photo is asked for: ten, or fewer of few photos")
    features: int = Field(description="width of the features, each 4 bytes")
    rows: tuple[KeptRow, ...]


class RecallRow(ManifestRecord):
    """How often captions and images find each other at one length."""

    dimensions: int
    text_to_image: dict[str, float] = Field(description="recall by depth: 1, 5 and 10")
    image_to_text: dict[str, float]


OTHERS = "others' "  # how the name of a measure on photos of other kinds begins


class Gain(ManifestRecord):
    """One measure at one length, before and after an adaptation, on the same queries."""

    length: str = Field(description="512: a prefix; 2048/205: stored with the 205 largest, asked whole")
    metric: str
    before: float
    after: float
    difference: float
    low: float = Field(description="of the difference's 95 % interval, by bootstrap over queries")
    high: float
    p: float = Field(description="of a sign-flip test")
    queries: int
