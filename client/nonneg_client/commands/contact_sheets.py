"""Contact sheets: one HTML file with thumbnails in it, of the hits of a search or of the findings of a curation."""

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

from nonneg_client.sources.image_sources import items
from nonneg_core.errors import NonnegError
from nonneg_core.files.atomic import atomic_write
from nonneg_core.files.image_files import place_of
from nonneg_core.pixels.decode import decode
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.long_runs import bounded_map
from nonneg_core.terminal.progress import ProgressBar
from nonneg_vectors.curation.collection import Collection, Finding, Group, Section
from nonneg_vectors.search.query_and_hits import Hit, name_of

THUMBNAIL = 320  # pixels of the longer side

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --bar: #3b82c4; font: 14px/1.4 system-ui, sans-serif; }}
body {{ margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }}
h1 {{ font-size: 1.1rem; font-weight: 600; overflow-wrap: anywhere; }}
.query img {{ max-height: 220px; border-radius: 6px; }}
.hits {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 1rem; padding: 0; }}
figure {{ margin: 0; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }}
figure img, figure .none {{ display: block; width: 100%; height: 160px; object-fit: contain; background: var(--line); }}
figure .none {{ display: grid; place-items: center; opacity: .6; }}
figure.chance {{ opacity: .55; }}
figcaption {{ padding: .6rem .7rem; }}
.score {{ font-weight: 600; font-variant-numeric: tabular-nums; }}
.path {{ display: block; font-size: .8rem; opacity: .75; overflow-wrap: anywhere; }}
.scale {{ font-size: .8rem; opacity: .75; }}
.reason {{ display: grid; grid-template-columns: minmax(5.5em, 45%) 1fr 3em; gap: .4rem; align-items: center;
  white-space: nowrap; font-size: .75rem;  font-variant-numeric: tabular-nums; }}
.reason span:first-child {{ overflow: hidden; text-overflow: ellipsis; }}
.reason i {{ height: .5em; border-radius: 2px; background: var(--bar); }}
.reason span:last-child {{ text-align: right; }}
</style>
<h1>{title}</h1>
{query}
<div class="hits">
{hits}
</div>
</html>
"""


def write_sheet(path: Path, title: str, hits: Sequence[Hit], *, query: str | None = None, root: str = "") -> int:
    """Write the sheet; how many images could not be read, and have an empty frame. Ids are paths within `root`."""
    query_html = (
        f'<p class="query"><img src="{_thumbnail(query)}" alt="query"></p>' if query and _thumbnail(query) else ""
    )
    thumbnails = [_thumbnail(place_of(hit.id, root)) for hit in hits]
    largest = max((part for hit in hits for _, part in hit.reasons), default=1.0)
    cards = [_card(hit, thumbnail, largest) for hit, thumbnail in zip(hits, thumbnails, strict=True)]
    scale = f'<p class="scale">All bars are on one scale: the longest is {largest:.3f} of a score.</p>' if hits else ""
    page = _PAGE.format(title=html.escape(title), query=query_html + scale, hits="\n".join(cards))
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return thumbnails.count(None)


def _card(hit: Hit, thumbnail: str | None, largest: float) -> str:
    name = html.escape(hit.id)
    picture = f'<img src="{thumbnail}" alt="{name}">' if thumbnail else '<div class="none">no picture</div>'
    reasons = "".join(
        f'<div class="reason" title="dimension {dimension}"><span>{html.escape(name_of(dimension, hit.names))}</span>'
        f'<i style="width:{100 * part / largest:.0f}%"></i><span>{part:.3f}</span></div>'
        for dimension, part in hit.reasons
    )
    by_chance = hit.match is False
    note = " no more than random photos may" if by_chance else ""
    caption = f'<span class="score">{hit.score:.3f}</span>{note}<span class="path">{name}</span>{reasons}'
    kind = ' class="chance"' if by_chance else ""
    return f"<figure{kind}>{picture}<figcaption>{caption}</figcaption></figure>"


def _thumbnail(source: str) -> str | None:
    try:
        (item,) = items(source)
        image = decode(item.load())
    except (NonnegError, ValueError):
        return None
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


# The contact sheet of a curation: one HTML file with thumbnails in it, where photos are marked and lists are saved.

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
    paths = list(dict.fromkeys(f.path for s in sections for g in _groups(s) for f in _photos(s, g)))
    pictures = _drawn(paths, shown=shown)
    numbers: PictureNumbers = {name: i for i, name in enumerate(paths) if pictures[i]}
    body = "\n".join(_section(section, numbers) for section in sections)
    tabs = "".join(f'<a href="#{s.part}">{html.escape(s.title)} <b>{_count(s)}</b></a>' for s in sections)
    template = files("nonneg_client.commands").joinpath("contact_sheet.html").read_text(encoding="utf-8")
    vectors = collection.vectors
    values = {
        "title": html.escape(title),
        "summary": html.escape(f"{len(collection)} photos, model {vectors.model} ({vectors.fingerprint[:8]})"),
        "tabs": tabs,
        "body": body,
        "key": hashlib.sha256(body.encode()).hexdigest()[:16],
        "pictures": json.dumps(pictures),
    }
    text = re.sub(r"\[\[(\w+)\]\]", lambda match: values[match[1]], template)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _drawn(paths: Sequence[str], *, shown: bool | None) -> list[str | None]:
    """Return the thumbnails of these photos, a few under way at a time."""
    cores, thumbnails = available_cores(), list[str | None]()
    with ThreadPoolExecutor(cores) as pool, ProgressBar("drawing", len(paths), shown=shown) as bar:
        for _, job in bounded_map(lambda path: pool.submit(thumbnail, path), paths, ahead=4 * cores):
            thumbnails.append(job.result())
            bar.move(len(thumbnails))
    return thumbnails


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
    cards = "".join(_finding_card(section, f, numbers.get(f.path)) for f in _photos(section, group))
    hidden = len(group.findings) - len(_photos(section, group))
    more = f"<p class=more>{hidden} more</p>" if hidden else ""
    return (
        f'<div class=group data-group="{number}"><h3><span>{number}</span> {html.escape(group.title)}</h3>'
        f"<div class=cards>{cards}{more}</div></div>"
    )


def _finding_card(section: Section, finding: Finding, picture: int | None) -> str:
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
