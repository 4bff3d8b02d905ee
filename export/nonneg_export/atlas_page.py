"""An atlas as one HTML file that opens anywhere: every dimension with its name, evidence and strongest photos."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from nonneg_core.atomic import atomic_write
from nonneg_runtime.atlas import Atlas
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.words.known_names import known_names

PAGE = Path(__file__).with_suffix(".html")


def write_atlas_page(path: Path, bundle: Bundle, atlas: Atlas, photos: str) -> None:
    """Write the page; `photos`: what the examples were taken from. Names are the bundle's, else the atlas's."""
    pictures: dict[bytes, int] = {}
    shown = [_dimension(bundle, atlas, j, pictures) for j in range(bundle.manifest.dimensions)]
    title = f"{bundle.manifest.name}: what its dimensions show in {photos}"
    told = {
        "dimensions": shown,
        "pictures": [base64.b64encode(jpeg).decode() for jpeg in pictures],
        "prefix": sum(d["name"] != "" for d in shown[:512]),
    }
    page = PAGE.read_text(encoding="utf-8").replace("{{title}}", html.escape(title))
    page = page.replace("{{fingerprint}}", html.escape(bundle.manifest.fingerprint))
    with atomic_write(path) as temporary:
        temporary.write_text(page.replace("{{data}}", _embedded(told)), encoding="utf-8")


def _dimension(bundle: Bundle, atlas: Atlas, j: int, pictures: dict[bytes, int]) -> dict[str, Any]:
    """Return a dimension as the page knows it; `pictures` grows by those it shows, each kept once."""
    name, columns = known_names(bundle).get(j), bundle.manifest.columns
    return {
        "name": name.name if name else "",
        "common": name.common if name else "",
        "evidence": name.evidence if name else "",
        "strength": None if name is None or name.precision is None else name.precision,
        "frequency": round(columns.frequency[j], 4),
        "examples": [
            [pictures.setdefault(e.image.jpeg, len(pictures)), round(e.activation, 3), e.image.path]
            for e in atlas.examples(j)
        ],
    }


def _embedded(value: object) -> str:
    """Return JSON as it may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
