"""JPEGs of one size, made from any folder of photos: the same bytes for every server."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageOps

ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}


def make_photos(
    folder: Path, *, width: int = 500, height: int = 375, count: int = 64, quality: int = 90
) -> list[bytes]:
    """Make `count` JPEGs of width x height, evenly picked from `folder`, filled and cropped, never distorted."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not found:
        raise SystemExit(f"{folder} holds no photos ({', '.join(sorted(ENDINGS))})")
    return [_jpeg(path, width, height, quality) for path in found[:: max(1, len(found) // count)][:count]]


def _jpeg(path: Path, width: int, height: int, quality: int) -> bytes:
    with Image.open(path) as image:
        fitted = ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    fitted.save(out, "JPEG", quality=quality)
    return out.getvalue()
