"""What curation finds, in one form for the table, CSV, JSON and the contact sheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from nonneg_client.curation.collection import Collection

Action = Literal["keep", "remove", "review", "choose", ""]

COLUMNS = ("part", "group", "action", "path", "image", "of", "cosine", "why")


@dataclass(frozen=True)
class Finding:
    """One photo of a group: what is suggested, compared with which other photo, and why."""

    image: str
    action: Action = ""
    why: str = ""
    of: str = ""  # the photo it is compared with
    cosine: float | None = None
    path: str = ""  # where the photo is


def found_at(
    collection: Collection, i: int, action: Action = "", why: str = "", of: str = "", cosine: float | None = None
) -> Finding:
    """Return a finding of photo i of a collection."""
    name = collection.ids[i]
    return Finding(name, action, why, of, cosine, collection.place(name))


@dataclass(frozen=True)
class Group:
    """Photos that belong together."""

    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Section:
    """One part of curation: how it was found, its groups, and where there are any its figures as a table."""

    part: str
    title: str
    how: str
    groups: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of `rows`
    rows: tuple[tuple[Any, ...], ...] = field(default=())

    def images(self) -> int:
        """Return how many photos are in its groups."""
        return sum(len(group.findings) for group in self.groups)

    def concerned(self) -> int:
        """Return how many photos something is suggested for; all of them where nothing is."""
        return sum(f.action != "" for group in self.groups for f in group.findings) or self.images()


def as_json(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Return the sections for programs."""
    found = []
    for section in sections:
        body = asdict(section)
        body["rows"] = [dict(zip(section.columns, row, strict=True)) for row in section.rows]
        del body["columns"]
        found.append(body)
    return found


def as_csv(sections: Sequence[Section]) -> str:
    """Return one line a photo, with the action that is suggested."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(lines(sections))
    return text.getvalue()


def lines(sections: Sequence[Section]) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of the CSV for every photo; groups are numbered within their part."""
    for section in sections:
        for number, group in enumerate(section.groups, 1):
            for f in group.findings:
                cosine = "" if f.cosine is None else f"{f.cosine:.4f}"
                yield (section.part, number, f.action, f.path, f.image, f.of, cosine, f.why)


def listed(sections: Sequence[Section], action: str) -> list[str]:
    """Return where the photos are for which an action is suggested, each once."""
    return list(dict.fromkeys(f.path for s in sections for g in s.groups for f in g.findings if f.action == action))
