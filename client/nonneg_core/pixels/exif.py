"""What a camera wrote into a photo's file: when it was taken, and with what."""

import io
from datetime import UTC, datetime
from typing import Any

from PIL import ExifTags, Image

READ = ("JPEG", "PNG", "WEBP")  # formats whose head alone is read for it
LONGEST = 80  # characters of a camera's name


def camera_facts(data: bytes) -> dict[str, Any]:
    """Return `taken` (seconds since 1970, the camera's clock read as UTC) and `camera`, where the file says them."""
    try:
        with Image.open(io.BytesIO(data), formats=READ) as image:
            exif = image.getexif()
        taken = exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.DateTimeOriginal) or exif.get(ExifTags.Base.DateTime)
        return {**_moment(taken), **_camera(exif.get(ExifTags.Base.Make), exif.get(ExifTags.Base.Model))}
    except Exception:  # EXIF fails in many ways on what is damaged, and says nothing then
        return {}


def _moment(text: Any) -> dict[str, int]:
    try:
        moment = datetime.strptime(str(text).strip("\0 "), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return {}
    return {"taken": int(moment.timestamp())} if moment.year > 1970 else {}


def _camera(make: Any, model: Any) -> dict[str, str]:
    maker, name = (str(part or "").strip("\0 ") for part in (make, model))
    whole = name if name.lower().startswith(maker.lower()) else f"{maker} {name}".strip()
    plain = "".join(c for c in whole if c.isprintable())[:LONGEST]
    return {"camera": plain} if plain else {}
