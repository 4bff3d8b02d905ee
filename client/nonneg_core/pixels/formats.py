"""The formats that the decoder reads with their files' endings, and arrays of pixels as images."""

from typing import TYPE_CHECKING, Any

from nonneg_core.errors import DataInvalid

if TYPE_CHECKING:
    from PIL.Image import Image

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


def from_array(array: Any) -> "Image":
    """Return a PIL image of uint8 pixels: (height, width), (height, width, 1), 3 (RGB) or 4 (RGBA)."""
    from PIL import Image

    shape: tuple[int, ...] = tuple(getattr(array, "shape", ()))
    fits = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))
    if str(getattr(array, "dtype", "")) != "uint8" or not fits or 0 in shape:
        raise DataInvalid(
            f"an array of {getattr(array, 'dtype', '?')} with shape {shape} is not an image",
            fix="give uint8 pixels of shape (height, width, 3), RGB",
        )
    return Image.fromarray(array[:, :, 0] if len(shape) == 3 and shape[2] == 1 else array)
