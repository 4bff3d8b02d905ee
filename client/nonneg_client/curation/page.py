"""The contact sheet of a curation: one HTML file with thumbnails in it, where photos are marked and lists are saved."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

from nonneg_client.curation.collection import Collection
from nonneg_client.curation.findings import Finding, Group, Section
from nonneg_client.sources.images import items
from nonneg_core.atomic import atomic_write
from nonneg_core.cores import available_cores
from nonneg_core.errors import NonnegError
from nonneg_core.lookahead import bounded_map
from nonneg_core.pixels.decode import decode
from nonneg_core.progress import ProgressBar

SIDE = 200  # pixels of a thumbnail's longer side
GROUPS = 60  # of a part that are shown
PHOTOS = 24  # of a group, where there are several
ALONE = 240  # of a part's only group
LETTERS = 44  # of a path that a caption shows
PictureNumbers = dict[str, int]  # a photo's path -> which of the sheet's pictures it is


def write_page(
    path: Path, title: str, sections: Sequence[Section], collection: Collection, *, shown: bool | None = None
) -> None:
    """Write the sheet, each photo in it once; one that cannot be read gets an empty frame."""
    wanted = list(dict.fromkeys(f.path for s in sections for g in _groups(s) for f in _photos(s, g)))
    pictures = _drawn(wanted, shown=shown)
    numbers: PictureNumbers = {name: i for i, name in enumerate(wanted) if pictures[i]}
    body = "\n".join(_section(section, numbers) for section in sections)
    tabs = "".join(f'<a href="#{s.part}">{html.escape(s.title)} <b>{_count(s)}</b></a>' for s in sections)
    template = files("nonneg_client.curation").joinpath("page.html").read_text(encoding="utf-8")
    held = collection.vectors
    values = {
        "title": html.escape(title),
        "summary": html.escape(f"{len(collection)} photos, model {held.model} ({held.fingerprint[:8]})"),
        "tabs": tabs,
        "body": body,
        "key": hashlib.sha256(body.encode()).hexdigest()[:16],
        "pictures": json.dumps(pictures),
    }
    text = re.sub(r"\[\[(\w+)\]\]", lambda found: values[found[1]], template)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _drawn(paths: Sequence[str], *, shown: bool | None) -> list[str | None]:
    """Return the thumbnails of these photos, a few under way at a time."""
    cores, found = available_cores(), list[str | None]()
    with ThreadPoolExecutor(cores) as pool, ProgressBar("drawing", len(paths), shown=shown) as bar:
        for _, job in bounded_map(lambda path: pool.submit(thumbnail, path), paths, ahead=4 * cores):
            found.append(job.result())
            bar.move(len(found))
    return found


def thumbnail(name: str, side: int = SIDE) -> str | None:
    """Return a small JPEG of a photo as a data URI; None where it cannot be read."""
    try:
        (item,) = items(name)
        image = decode(item.load(), at_least=side)
    except (NonnegError, ValueError):
        return None
    image.thumbnail((side, side))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=78)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _groups(section: Section) -> tuple[Group, ...]:
    return section.groups[:GROUPS]


def _photos(section: Section, group: Group) -> tuple[Finding, ...]:
    return group.findings[: ALONE if len(section.groups) == 1 else PHOTOS]


def _count(section: Section) -> int:
    return len(section.rows) if section.rows else section.concerned()


def _section(section: Section, numbers: PictureNumbers) -> str:
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in section.notes)
    groups = "\n".join(_group(section, number, group, numbers) for number, group in enumerate(_groups(section), 1))
    left = section.images() - sum(len(_photos(section, group)) for group in _groups(section))
    rest = f"<p class=note>{left} more photos are in the CSV, not here.</p>" if left > 0 else ""
    none = "" if section.groups or section.rows else "<p class=none>None found.</p>"
    return (
        f'<section data-part="{section.part}"><h2>{html.escape(section.title)} <b>{_count(section)}</b></h2>'
        f"<p class=how>{html.escape(section.how)}</p>{notes}{none}{_table(section)}{groups}{rest}</section>"
    )


def _table(section: Section) -> str:
    if not section.rows:
        return ""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in section.columns)
    rows = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in section.rows)
    unfolded = "" if section.groups else " open"
    return f"<details{unfolded}><summary>Table</summary><table><tr>{head}</tr>{rows}</table></details>"


def _cell(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else html.escape(str(cell))


def _group(section: Section, number: int, group: Group, numbers: PictureNumbers) -> str:
    cards = "".join(_card(section, f, numbers.get(f.path)) for f in _photos(section, group))
    hidden = len(group.findings) - len(_photos(section, group))
    more = f"<p class=more>{hidden} more</p>" if hidden else ""
    return (
        f'<div class=group data-group="{number}"><h3><span>{number}</span> {html.escape(group.title)}</h3>'
        f"<div class=cards>{cards}{more}</div></div>"
    )


def _card(section: Section, finding: Finding, picture: int | None) -> str:
    name, path = (html.escape(text, quote=True) for text in (finding.image, finding.path))
    image = "<span class=gone>no picture</span>" if picture is None else f'<img data-picture="{picture}" alt="">'
    cosine = "" if finding.cosine is None else f"<span class=cosine>{finding.cosine:.3f}</span>"
    badge = f"<span class='badge {finding.action}'>{finding.action}</span>" if finding.action else ""
    link = f'<a href="{html.escape(_link(finding.path), quote=True)}" target=_blank title="open the photo">open</a>'
    return (
        f'<figure data-image="{path}" data-action="{finding.action}" data-part="{section.part}">'
        f'<button type=button aria-pressed=false title="{name}">{image}</button>'
        f'<figcaption><div>{badge}{cosine}{link}</div><span class=path title="{name}">{_short(finding.image)}</span>'
        f"<span class=why>{html.escape(finding.why)}</span></figcaption></figure>"
    )


def _short(name: str) -> str:
    return html.escape(name if len(name) <= LETTERS else "…" + name[1 - LETTERS :])


def _link(name: str) -> str:
    return name if "://" in name else Path(name).absolute().as_uri()
