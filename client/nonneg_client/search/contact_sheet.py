"""A contact sheet: one HTML file with thumbnails inside it, each hit with its score and its reasons."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path

from nonneg_client.model_of_vectors import name_of
from nonneg_client.search.hits import Hit
from nonneg_client.sources.image_ids import place_of
from nonneg_client.sources.images import items
from nonneg_core.atomic import atomic_write
from nonneg_core.errors import NonnegError

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
    asked = f'<p class="query"><img src="{_thumbnail(query)}" alt="query"></p>' if query and _thumbnail(query) else ""
    thumbnails = [_thumbnail(place_of(hit.id, root)) for hit in hits]
    largest = max((part for hit in hits for _, part in hit.reasons), default=1.0)
    cards = [_card(hit, thumbnail, largest) for hit, thumbnail in zip(hits, thumbnails, strict=True)]
    scale = f'<p class="scale">All bars are on one scale: the longest is {largest:.3f} of a score.</p>' if hits else ""
    page = _PAGE.format(title=html.escape(title), query=asked + scale, hits="\n".join(cards))
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
    told = " no more than random photos may" if by_chance else ""
    caption = f'<span class="score">{hit.score:.3f}</span>{told}<span class="path">{name}</span>{reasons}'
    kind = ' class="chance"' if by_chance else ""
    return f"<figure{kind}>{picture}<figcaption>{caption}</figcaption></figure>"


def _thumbnail(source: str) -> str | None:
    from nonneg_core.pixels.decode import decode

    try:
        (item,) = items(source)
        image = decode(item.load())
    except (NonnegError, ValueError):
        return None
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
