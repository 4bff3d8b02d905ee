"""What a manifest says of whether dimensions mean something: figures beside their floors, and how stable names are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nonneg_runtime.evidence import ManifestRecord

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
