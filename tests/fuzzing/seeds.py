"""Real files of every format that is read, in the forms that decoders treat apart."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import skimage
from PIL import Image, ImageCms

SIZE = (96, 64)


def seeds() -> dict[str, list[bytes]]:
    """The files of each format."""
    with suppress(ImportError):
        __import__("pillow_heif").register_heif_opener()
    with Image.open(Path(skimage.__file__).parent / "data" / "chelsea.png") as opened:
        photo = opened.convert("RGB").resize(SIZE)
    clear = photo.copy()
    clear.putalpha(photo.convert("L"))
    deep = Image.fromarray(np.asarray(photo.convert("L")).astype(np.uint16) * 257)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    deeper = Image.Exif()
    deeper.get_ifd(0x8769).update({0x9000: b"0232", 0xA005: {1: "R98"}})
    deeper.get_ifd(0x8825).update({0: b"\2\3\0\0"})
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    about = {"exif": exif, "icc_profile": profile}
    frames: dict[str, Any] = {"save_all": True, "append_images": [photo.rotate(90), photo]}
    forms: dict[str, list[tuple[Image.Image, dict[str, Any]]]] = {
        "JPEG": [
            (photo, {}),
            (photo, {"progressive": True, "subsampling": 0}),
            (photo.convert("L"), {"restart_marker_rows": 1}),
            (photo.convert("CMYK"), {"progressive": True}),
            (photo, about | {"comment": b"a comment"}),
        ],
        "MPO": [(photo, {"save_all": True, "append_images": [photo.rotate(90)]})],
        "PNG": [(photo, about), (clear, {}), (photo.convert("P"), {"transparency": 3}), (deep, {}), (clear, frames)],
        "GIF": [(photo, {}), (photo, frames | {"comment": b"a comment", "loop": 0}), (photo, {"interlace": 0})],
        "WEBP": [(photo, about), (clear, {"lossless": True}), (clear, {"quality": 60}), (clear, frames)],
        "BMP": [(photo, {}), (photo.convert("P"), {}), (photo.convert("1"), {}), (clear, {})],
        "TIFF": [
            (photo, about),
            (photo, {"compression": "tiff_lzw"}),
            (photo, {"compression": "jpeg"}),
            (clear, {"compression": "tiff_adobe_deflate"}),
            (photo.convert("CMYK"), {"compression": "packbits"}),
            (photo.convert("1"), {"compression": "group4"}),
            (photo.convert("1"), {"compression": "group3"}),
            (deep, {"compression": "lzma"}),
            (photo, frames),
            (photo, {"exif": deeper}),
            (photo, {"exif": deeper, "big_tiff": True}),
        ],
        "AVIF": [(photo, {"speed": 10}), (clear, {"speed": 10} | about), (photo, {"speed": 10} | frames)],
        "HEIF": [(photo, {}), (clear, about)],
    }
    return {kind: [saved(image, kind, options) for image, options in made] for kind, made in forms.items()}


def saved(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
