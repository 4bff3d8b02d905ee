"""What a manifest keeps of measurements: self-test, checks, quality by length, gains, and a certificate."""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Selection = Literal["expected-activation", "random", "variance", "pca", "features"]
Asking = Literal["cut", "whole", "re-ranked"]


class ManifestRecord(BaseModel):
    """A part of the manifest: frozen, and without fields that are not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class GrownRecord(ManifestRecord):
    """A record whose fields of `came_later` are left out at their defaults: older manifests keep their digests."""

    came_later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_defaults_that_came_later(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        kinds = type(self).model_fields
        unsaid = {name for name in self.came_later if getattr(self, name) == kinds[name].default}
        return {name: value for name, value in fields.items() if name not in unsaid}


class QualityRow(GrownRecord):
    """Retrieval at one length, for one way to choose the dimensions."""

    came_later = ("asked",)

    selection: Selection
    dimensions: int
    top_k: int | None = None
    p_at_1: float
    p_at_10: float = Field(description='what the NCL authors call "mAP@10"')
    map_at_k: float
    knn: float
    zero_share: float = Field(description="share of the vectors of which nothing is left")
    mean_nnz: float
    bytes: float = Field(description="a vector: float32 dense, or 2-byte index and float16 value, whichever is smaller")
    asked: Asking = Field(
        default="cut", description="queries: cut as what is stored; whole; whole, which then order the first 200"
    )


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


class Structure(GrownRecord):
    """What the dimensions are like, each measured on the full, row-normalised vectors."""

    came_later = ("sepin_intervals",)

    sparsity: float = Field(description="share of entries below 1e-5")
    correlation: float = Field(description="mean absolute cosine between two different live columns")
    consistency: float = Field(description="share of the most frequent class among a dimension's images, weighted")
    consistency_floor: float = Field(description="the same for shuffled labels")
    consistency_unweighted: float
    consistency_unweighted_floor: float
    sepin: dict[str, float] = Field(description="mean over the first k dimensions of what only they know")
    sepin_estimator: str = ""
    sepin_intervals: dict[str, tuple[float, float]] = Field(default={}, description="of 95 %, over images")


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


# What a manifest says of whether dimensions mean something: figures beside their floors, and how stable names are.

CheckOutcome = Literal["pass", "fail", "not decided"]


class Bounds(ManifestRecord):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


class FigureRecord(ManifestRecord):
    """One figure of the codes, the same of each floor, and by how much it lies above them."""

    name: str
    dimensions: int = Field(ge=1, description="of so many: those with a name, where there are any, or all")
    decides: bool = Field(description="whether the verdict asks for it to be above every floor, or above chance alone")
    measured: Bounds
    floors: dict[str, Bounds] = Field(description="shuffled labels; codes rotated and cut alike; an untrained head")
    above: dict[str, Bounds] = Field(description="measured less the floor, on the same photos")


class StabilityRecord(ManifestRecord):
    """How alike the named columns of several seeds are, each computed from its own crops of the same photos."""

    seeds: int = Field(ge=2)
    data: str = Field(description="the photos over which columns are compared")
    shared: float = Field(description="share of the named classes that two seeds both choose")
    correlation: float = Field(description="of the columns of one name with two seeds, the mean")
    floor: float = Field(description="the same of two names")
    strongest: float = Field(description="of a column's ten strongest photos, the share that two seeds have in common")


class CertificateRecord(ManifestRecord):
    """What `nonneg certify` found on labelled photos."""

    data: str
    digest: str = Field(description="sha256 over the photos' own digests, in order")
    images: int = Field(ge=1)
    classes: int = Field(ge=1)
    pairs: int = Field(ge=0, description="pictures of each kind that were made of two photos")
    judge: str = Field(description="the other encoder, which says what is alike: its name and fingerprint")
    precision: str = Field(description="the form of the encoder that computed")
    figures: tuple[FigureRecord, ...]
    missing: tuple[str, ...] = Field(default=(), description="what could not be measured, and why")
    outcome: CheckOutcome
    reason: str
