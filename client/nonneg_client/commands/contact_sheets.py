"""Contact sheets: one HTML file with thumbnails, of hits or of findings; photos are marked, and lists saved."""

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from nonneg_client.sources.image_sources import items
from nonneg_core.errors import NonnegError
from nonneg_core.files.atomic import atomic_write
from nonneg_core.files.image_files import is_url, place_of, read_within
from nonneg_core.pixels.decode import decode
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.long_runs import bounded_map
from nonneg_core.terminal.progress import ProgressBar
from nonneg_vectors.curation.collection import Collection, Finding, Group, Section
from nonneg_vectors.search.query_and_hits import Hit, name_of

SIDE, SIDE_OF_HITS = 200, 320  # pixels of a thumbnail's longer side
GROUPS = 60  # of a part that are shown
PHOTOS = 24  # of a group, where there are several
ALONE = 240  # of a part's only group
LETTERS = 44  # of a path that a caption shows
PictureNumbers = dict[str, int]  # a photo's path -> which of the sheet's pictures it is


def write_sheet(path: Path, title: str, hits: Sequence[Hit], *, query: str | None = None, root: str = "") -> int:
    """Write the hits of a search; return how many of their images could not be read. Ids are paths within `root`."""
    loads = [partial(read_within, place_of(hit.id, root), root) for hit in hits]
    *pictures, query_picture = _drawn([*loads, partial(_typed, query or "")], SIDE_OF_HITS, shown=False)
    largest = max((part for hit in hits for _, part in hit.reasons), default=1.0)
    cards = "".join(_hit_card(hit, i if pictures[i] else None, largest) for i, hit in enumerate(hits))
    picture = f'<p class=query><img data-picture="{len(hits)}" alt="query"></p>' if query_picture else ""
    scale = f"<p class=how>All bars are on one scale: the longest is {largest:.3f} of a score.</p>" if hits else ""
    body = f"<section data-part=hits>{picture}{scale}<div class='cards hits'>{cards}</div></section>"
    _write(path, title, f"{len(hits)} hits", "", body, [*pictures, query_picture])
    return pictures.count(None)


def write_page(
    path: Path, title: str, sections: Sequence[Section], *collections: Collection, shown: bool | None = None
) -> None:
    """Write findings, each photo once; one that cannot be read in its collection's folder gets an empty frame."""
    paths = list(dict.fromkeys(f.path for s in sections for g in _groups(s) for f in _photos(s, g)))
    roots = [collection.root for collection in collections]
    pictures = _drawn([partial(read_within, place, *roots) for place in paths], SIDE, shown=shown)
    numbers: PictureNumbers = {name: i for i, name in enumerate(paths) if pictures[i]}
    tabs = "".join(f'<a href="#{s.part}">{html.escape(s.title)} <b>{_count(s)}</b></a>' for s in sections)
    vectors = collections[0].vectors
    summary = f"{len(collections[0])} photos, model {vectors.model} ({vectors.fingerprint[:8]})"
    _write(path, title, summary, tabs, "\n".join(_section(section, numbers) for section in sections), pictures)


def _write(path: Path, title: str, summary: str, tabs: str, body: str, pictures: Sequence[str | None]) -> None:
    template = files("nonneg_client.commands").joinpath("contact_sheet.html").read_text(encoding="utf-8")
    values = {
        "title": html.escape(title),
        "summary": html.escape(summary),
        "tabs": tabs,
        "body": body,
        "key": hashlib.sha256(body.encode()).hexdigest()[:16],
        "pictures": json.dumps(pictures),
    }
    text = re.sub(r"\[\[(\w+)\]\]", lambda match: values[match[1]], template)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _typed(query: str) -> bytes:
    """Return the bytes of the photo that was typed as a query; an error where it is not one photo."""
    (item,) = items(query)
    return item.load()


def _drawn(loads: Sequence[Callable[[], bytes]], side: int, *, shown: bool | None) -> list[str | None]:
    """Return the thumbnails of the photos whose bytes these give, a few under way at a time."""
    cores, thumbnails = available_cores(), list[str | None]()
    with ThreadPoolExecutor(cores) as pool, ProgressBar("drawing", len(loads), shown=shown) as bar:
        for _, job in bounded_map(lambda load: pool.submit(_thumbnail, load, side), loads, ahead=4 * cores):
            thumbnails.append(job.result())
            bar.move(len(thumbnails))
    return thumbnails


def _thumbnail(load: Callable[[], bytes], side: int) -> str | None:
    """Return a small JPEG of a photo as a data URI; None where it cannot be read."""
    try:
        image = decode(load(), at_least=side)
    except (NonnegError, ValueError):
        return None
    image.thumbnail((side, side))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _hit_card(hit: Hit, picture: int | None, largest: float) -> str:
    reasons = "".join(
        f'<div class="reason" title="dimension {dimension}"><span>{html.escape(name_of(dimension, hit.names))}</span>'
        f'<i style="width:{100 * part / largest:.0f}%"></i><span>{part:.3f}</span></div>'
        for dimension, part in hit.reasons
    )
    by_chance = hit.match is False
    note = " no more than random photos may" if by_chance else ""
    caption = f'<div><span class="score">{hit.score:.3f}</span>{note}</div>'
    caption += f"<span class=path>{html.escape(hit.id)}</span>{reasons}"
    return _card(hit.id, "hits", "", picture, caption, ' class="chance"' * by_chance)


def _card(path: str, part: str, action: str, picture: int | None, caption: str, kind: str = "") -> str:
    name = html.escape(path, quote=True)
    image = "<span class=gone>no picture</span>" if picture is None else f'<img data-picture="{picture}" alt="">'
    return (
        f'<figure{kind} data-image="{name}" data-action="{action}" data-part="{part}">'
        f'<button type=button aria-pressed=false title="{name}">{image}</button>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


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
    cosine = "" if finding.cosine is None else f"<span class=cosine>{finding.cosine:.3f}</span>"
    badge = f"<span class='badge {finding.action}'>{finding.action}</span>" if finding.action else ""
    link = f'<a href="{html.escape(_link(finding.path), quote=True)}" target=_blank title="open the photo">open</a>'
    name = html.escape(finding.image, quote=True)
    caption = (
        f'<div>{badge}{cosine}{link}</div><span class=path title="{name}">{_short(finding.image)}</span>'
        f"<span class=why>{html.escape(finding.why)}</span>"
    )
    return _card(finding.path, section.part, finding.action, picture, caption)


def _short(name: str) -> str:
    return html.escape(name if len(name) <= LETTERS else "…" + name[1 - LETTERS :])


def _link(name: str) -> str:
    return name if is_url(name) else Path(name).absolute().as_uri()
