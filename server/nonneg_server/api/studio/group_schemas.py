"""What the studio answers of groups, for the OpenAPI document; the page's groups.js shows it."""

from __future__ import annotations

from typing import Any, Literal

from nonneg_server.api.openapi import Shape
from nonneg_server.api.studio.schemas import ENTRY


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
