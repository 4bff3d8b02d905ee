"""The formats that the decoder reads, and the endings of their files' names: one list for all that looks for images."""

from __future__ import annotations

SUFFIXES = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"),
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "AVIF": (".avif", ".avifs"),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "GIF": (".gif",),
    "HEIF": (".heic", ".heif", ".heics", ".heifs", ".hif"),
}
FORMATS = tuple(SUFFIXES)
OF_IMAGES = frozenset(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)  # lower case
