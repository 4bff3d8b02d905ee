"""The studio's answers for the OpenAPI document; studio/ makes them."""

from __future__ import annotations

from typing import Any, Literal

from nonneg_server.api.native_answers import Evidence
from nonneg_server.api.route import FINGERPRINT, Shape


class Folder(Shape):
    """The indexed folder."""

    name: str
    photos: int
    groups: bool


class Overview(Shape):
    """What is looked at; `dimensions` are the model's, or those of them that the folder's index holds."""

    model: str
    fingerprint: str
    dimensions: int
    named: int
    lengths: list[dict[str, Any]]
    where: bool
    folder: Folder | None


class PhotoEntry(Shape):
    photo: str
    name: str


class PhotoList(Shape):
    """Photos by name."""

    total: int
    photos: list[PhotoEntry]


class Bar(Shape):
    dimension: int
    name: str | None
    term: str
    value: float
    share: float


class ShownBar(Bar):
    exemplars: list[str]


class PhotoBars(Shape):
    """A photo's dimensions, the strongest first."""

    photo: str
    name: str | None
    dimensions: int
    nnz: int
    bars: list[ShownBar]


class StudioWhere(Shape):
    """A dimension's strength in the whole vector by cell: the rows sum to it.

    `box` is what of the photo the cells cover, in shares of its width and height.
    """

    photo: str
    dimension: int
    name: str | None
    term: str
    strength: float
    cells: list[list[float]]
    box: list[float]


class StudioReason(Shape):
    dimension: int
    name: str | None
    term: str
    exemplar: str | None
    part: float
    share: float


class Hit(Shape):
    photo: str
    name: str
    score: float
    reasons: list[StudioReason]


class Facet(Shape):
    dimension: int
    name: str | None
    term: str
    exemplar: str | None
    in_result: int
    of: int
    count: int


class Leaf(Shape):
    kind: Literal["photo", "words", "dimension"]
    text: str
    dimension: int | None
    name: str | None


class Weighted(Leaf):
    weight: float


class LeftOutLeaf(Leaf):
    needs: int | None


class Parsed(Shape):
    text: str
    parts: list[list[Weighted]]
    without: list[Leaf]


class Found(Shape):
    """What was asked, the hits, the line below which chance begins, and what shortening costs.

    `left_out` are terms that say nothing within the length; they count from the length `needs` on.
    """

    expression: Parsed | None
    asked: list[ShownBar]
    left_out: list[LeftOutLeaf]
    hits: list[Hit]
    total: int
    above: int
    chance: float
    milliseconds: float
    bytes: float
    whole_bytes: float
    agreement: float | None
    facets: list[Facet]


class SharedBar(ShownBar):
    values: list[float]


class Sides(Shape):
    """What only one photo has, and what two share: the parts of that and the rest sum to their cosine.

    `copy` is what curation would say, by the whole vectors' cosine and the likeness of the thumbnails, the largest
    correlation where one may be mirrored or cropped; both are null where a photo cannot be read.
    """

    a: PhotoEntry
    b: PhotoEntry
    cosine: float
    shared: list[SharedBar]
    only_a: list[ShownBar]
    only_b: list[ShownBar]
    counts: list[int]
    rest: float
    chance: float
    likeness: float | None
    copy: bool | None


class Strong(Shape):
    photo: str
    name: str
    value: float


class Drift(Shape):
    frequency: float | None
    mean: float | None


class Company(Shape):
    dimension: int
    name: str | None
    term: str
    cosine: float
    exemplars: list[str]


class Here(Shape):
    photos: list[Strong]
    count: int
    of: int
    frequency: float
    mean: float
    drift: Drift
    company: list[Company]


class Meaning(Shape):
    """A dimension: what its model says of it, and what this folder does."""

    dimension: int
    name: str | None
    term: str
    common: str | None
    evidence: Evidence | None
    frequency: float
    expected_activation: float
    examples: list[str]
    here: Here | None


ENTRY = {"photo": "5d2f9c31a7b04e68", "name": "winter/cat.jpg"}
_CARD = {"dimension": 1731, "name": "snow", "term": "dim:snow"}
_BAR = {**_CARD, "value": 0.31, "share": 0.096}
OVERVIEW: Any = {
    "model": "photo",
    "fingerprint": FINGERPRINT,
    "dimensions": 2048,
    "named": 800,
    "lengths": [{"dimensions": 512, "p_at_1": 0.877}],
    "where": True,
    "folder": {"name": "photos", "photos": 1500, "groups": True},
}
PHOTOS: Any = {"total": 1500, "photos": [ENTRY]}
_SHOWN = {**_BAR, "exemplars": [ENTRY["photo"]]}
BARS: Any = {**ENTRY, "dimensions": 2048, "nnz": 502, "bars": [_SHOWN]}
WHERE: Any = {
    "photo": ENTRY["photo"],
    **_CARD,
    "strength": 1.64,
    "cells": [[0.9, 0.5], [0.2, 0.04]],
    "box": [0.125, 0.0, 0.75, 1.0],
}
_SNOW = {"kind": "dimension", "text": "dim:snow", "dimension": 1731, "name": "snow"}
_CAT = {"kind": "photo", "text": "winter/cat.jpg", "dimension": None, "name": "winter/cat.jpg", "weight": 1.0}
FOUND: Any = {
    "expression": {"text": "winter/cat.jpg !dim:snow", "parts": [[_CAT]], "without": [_SNOW]},
    "asked": [_SHOWN],
    "left_out": [],
    "hits": [
        {**ENTRY, "score": 0.61, "reasons": [{**_CARD, "exemplar": ENTRY["photo"], "part": 0.12, "share": 0.197}]}
    ],
    "total": 1499,
    "above": 38,
    "chance": 0.27,
    "milliseconds": 4.1,
    "bytes": 834.0,
    "whole_bytes": 2009.0,
    "agreement": 0.9,
    "facets": [{**_CARD, "exemplar": ENTRY["photo"], "in_result": 17, "of": 20, "count": 61}],
}
SIDES: Any = {
    "a": ENTRY,
    "b": {"photo": "0b7e55d0c1f2a394", "name": "winter/dog.jpg"},
    "cosine": 0.52,
    "shared": [{**_SHOWN, "values": [0.31, 0.28]}],
    "only_a": [_SHOWN],
    "only_b": [_SHOWN],
    "counts": [180, 300, 201],
    "rest": 0.43,
    "chance": 0.27,
    "likeness": 0.61,
    "copy": False,
}
MEANING: Any = {
    **_CARD,
    "common": None,
    "evidence": {
        "source": "direction",
        "says": "9 of its 10 strongest photos show it, 24 in all",
        "precision": 0.9,
        "photos": 24,
        "rank": None,
    },
    "frequency": 0.04,
    "expected_activation": 0.002,
    "examples": [],
    "here": {
        "photos": [{**ENTRY, "value": 0.31}],
        "count": 61,
        "of": 1500,
        "frequency": 0.041,
        "mean": 0.0021,
        "drift": {"frequency": 1.02, "mean": 1.05},
        "company": [
            {"dimension": 1502, "name": "ski", "term": "dim:ski", "cosine": 0.4, "exemplars": [ENTRY["photo"]]}
        ],
    },
}


# What the studio answers of groups, for the OpenAPI document; the page's groups.js shows it.


class GroupedPhoto(Shape):
    """One photo of a group: what is suggested (`""`: nothing), of which photo by which cosine, and why."""

    photo: str
    name: str
    of: str | None
    action: Literal["keep", "remove", "review", "choose", ""]
    why: str
    cosine: float | None


class PhotoGroup(Shape):
    """Photos that belong together: `photos` are all of them, of which `unlisted` do not stand in `findings`."""

    title: str
    photos: int
    unlisted: int
    findings: list[GroupedPhoto]


class Section(Shape):
    """One part of curation: how it was found, its groups, and its figures as a table where there are any."""

    part: str
    title: str
    how: str
    groups: list[PhotoGroup]
    notes: list[str]
    rows: list[dict[str, Any]]


class GroupsProgress(Shape):
    """How many photos the present step of the search for groups has done; `of` is 0 where that is not counted."""

    found: bool
    done: int
    of: int


class Sections(GroupsProgress):
    """What curation found, part by part; nothing yet while `found` is false: ask again."""

    sections: list[Section]


GROUPS_PROGRESS: Any = {"found": False, "done": 40960, "of": 100000}
_KEPT = {**ENTRY, "of": None, "action": "keep", "why": "the largest, sharpest copy", "cosine": None}
_REMOVED = {
    "photo": "0b7e55d0c1f2a394",
    "name": "winter/cat-small.jpg",
    "of": ENTRY["photo"],
    "action": "remove",
    "why": "320 x 240 pixels, the kept one 1280 x 960",
    "cosine": 0.81,
}
SECTIONS: Any = {
    "found": True,
    "done": 1500,
    "of": 1500,
    "sections": [
        {
            "part": "copies",
            "title": "Copies of one photo",
            "how": "Their thumbnails correlate.",
            "groups": [{"title": "2 photos", "photos": 2, "unlisted": 0, "findings": [_KEPT, _REMOVED]}],
            "notes": [],
            "rows": [],
        }
    ],
}
