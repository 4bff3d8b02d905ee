"""From a file's bytes to an upright, opaque sRGB image: the one decoder of training, serving and the clients."""

import io
import math
import struct
import warnings
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from PIL import ExifTags, Image, ImageCms, ImageOps, UnidentifiedImageError

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported, NonnegError
from nonneg_core.pixels.decoder_process import Order, belongs_apart, decoded_apart
from nonneg_core.pixels.identify import MAX_PIXELS, can_heif, identify
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.tiff_layout import check_layout, has_header, unsupported

Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)
STRIP = 2**20  # pixels
KEPT = 32  # transforms

_SRGB = ImageCms.createProfile("sRGB")
_TRANSFORMS: OrderedDict[tuple[bytes, str], ImageCms.ImageCmsTransform | None] = OrderedDict()
_LOCK = Lock()
_OPAQUE = {"1": "L", "P": "RGB", "YCbCr": "RGB", "HSV": "RGB", "RGBX": "RGB"}


def opaque_srgb(image: Image.Image, background: Colour = WHITE, *, strip: int = STRIP) -> Image.Image:
    """Return an RGB image in sRGB, what is transparent filled with `background`.

    Every pixel by itself: a large image is taken in strips of so many pixels, so that no more than it and its result
    are ever held.
    """
    if image.mode == "RGB" and not image.has_transparency_data and not image.info.get("icc_profile"):
        return image
    rows = max(1, strip // image.width)
    if rows >= image.height:
        return _opaque_srgb(image, background)
    canvas = Image.new("RGB", image.size)
    for top in range(0, image.height, rows):
        part = image.crop((0, top, image.width, min(top + rows, image.height)))
        canvas.paste(_opaque_srgb(part, background), (0, top))
    return canvas


def _opaque_srgb(image: Image.Image, background: Colour) -> Image.Image:
    profile = image.info.get("icc_profile")
    if image.mode == "F":
        raise ImageUnsupported(
            "an image of floating-point numbers is not supported: the value of white is not known",
            fix="convert it to 8 or 16 bits",
            value="F",
        )
    if image.mode.startswith("I"):
        image = _sixteen_to_eight(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
    elif image.mode in _OPAQUE:
        image = image.convert(_OPAQUE[image.mode])
    if profile:
        image = _to_srgb(image, profile)
    if image.mode == "RGBA":
        canvas = Image.new("RGBA", image.size, (*background, 255))
        image = Image.alpha_composite(canvas, image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _sixteen_to_eight(image: Image.Image) -> Image.Image:
    """Turn 16-bit grey into 8-bit; Pillow's own conversion clips at 255 instead of scaling."""
    values = np.asarray(image)  # uint16, or int32
    grey = Image.fromarray((values.clip(0, 65535) >> 8).astype(np.uint8))
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):  # one 16-bit value means "nothing here"
        grey.putalpha(Image.fromarray(np.where(values == transparent, 0, 255).astype(np.uint8)))
    return grey.convert("RGBA") if grey.mode == "LA" else grey


def _to_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    if image.mode not in ("L", "RGB", "RGBA", "CMYK", "LAB"):
        return image
    transform = profile_transform(profile, image.mode)
    if transform is None:
        return image
    converted = ImageCms.applyTransform(image, transform)
    return image if converted is None else converted


def profile_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the way to sRGB, built once a profile: building takes longer than converting a photo.

    None where the profile is broken or too much work, and a good picture is not refused for it (every viewer ignores
    it too), and where it changes nothing. Most photos that carry a profile carry sRGB itself.
    """
    if len(profile) > MAX_PROFILE:
        return None
    key = sha256(profile).digest(), mode
    with _LOCK:
        if key in _TRANSFORMS:
            _TRANSFORMS.move_to_end(key)
            return _TRANSFORMS[key]
    transform = _build(profile, mode)
    with _LOCK:
        _TRANSFORMS[key] = transform
        if len(_TRANSFORMS) > KEPT:
            _TRANSFORMS.popitem(last=False)
    return transform


def _build(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    if not can_be_used(profile):
        return None
    target = "RGBA" if mode == "RGBA" else "RGB"
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(source, _SRGB, mode, target)
        return None if mode in ("RGB", "RGBA") and _changes_nothing(transform, mode) else transform
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None


def _changes_nothing(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """Return whether every colour of a grid stays where it is, to within rounding."""
    steps = np.linspace(0, 255, 17).astype(np.uint8)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(17, -1, 3)
    probe = Image.fromarray(grid).convert(mode)
    converted = ImageCms.applyTransform(probe, transform)
    return (
        converted is not None and int(np.abs(np.asarray(probe, np.int16) - np.asarray(converted, np.int16)).max()) <= 1
    )


# What the file is, is decided by its content, never by its name, and what it will take is read from its header before
# any decoder sees it, so that a bomb of any kind costs nothing. Only the format it has is tried: a general opener
# would hand PostScript to an interpreter.

Seen = TypeVar("Seen")
MOST_PIXELS = 178_956_970  # Pillow refuses more, whatever the limit
_FRAMED = ("WEBP", "AVIF")

# Our own limit stands above the size at which Pillow starts to warn; what it warns of in broken files would fill a
# server's log and, each text being new, the interpreter's memory of warnings shown.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", module=r"PIL\.")


def decode(
    data: bytes, *, max_pixels: int = MAX_PIXELS, background: Colour = WHITE, at_least: int | None = None
) -> Image.Image:
    """Decode the first frame in `data`: turned upright by its EXIF, colours in sRGB, transparency over `background`.

    A JPEG can be decoded at a half, a quarter or an eighth of its size, at a fraction of the cost. With `at_least`,
    the smallest of these at which no side is shorter.
    """
    return decode_then(data, lambda image: image, max_pixels=max_pixels, background=background, at_least=at_least)


def decode_then(
    data: bytes,
    see: Callable[[Image.Image], Seen],
    *,
    max_pixels: int = MAX_PIXELS,
    background: Colour = WHITE,
    at_least: int | None = None,
    price: Price | None = None,
) -> Seen:
    """Return what `see` makes of the decoded image; its `price` may be known from `identify`, asked for the same."""
    price = price or identify(data, max_pixels=max_pixels, at_least=at_least)
    if belongs_apart(price):
        return see(Image.fromarray(decoded_apart(data, price, Order(background, at_least)).pixels))
    return see(decoded_here(data, price, background=background, at_least=at_least))


def decoded_here(data: bytes, price: Price, *, background: Colour = WHITE, at_least: int | None = None) -> Image.Image:
    """Decode it in this process, which nothing ends but its price."""
    try:
        image = _loaded(data, price, at_least)
        _turn(image)
        return opaque_srgb(image, background)
    except NonnegError:
        raise
    except MemoryError as error:
        raise ImageTooLarge(
            f"decoding this {price.format} takes more memory than the {price.bytes} bytes that its size allows",
            fix="scale it down, or save it as a JPEG",
            field="memory",
            limit=price.bytes,
        ) from error
    except Exception as error:  # a decoder fails in many ways on what is damaged: asserts and null pointers among them
        raise _unreadable(f"a {price.format} of {len(data)} bytes that breaks off or is damaged") from error


def upright_rgb(image: Image.Image, *, background: Colour = WHITE) -> Image.Image:
    """Return any PIL image as an upright, opaque RGB one in sRGB."""
    return opaque_srgb(upright(image), background)


def upright(image: Image.Image) -> Image.Image:
    """Return the image turned as its EXIF says; the image itself where there is nothing to turn."""
    image.load()
    return ImageOps.exif_transpose(image) if _turned(image) else image


def _loaded(data: bytes, price: Price, at_least: int | None) -> Image.Image:
    """Return the decoded image, as it lies in the file; no more of it is held than is announced."""
    image = _opened(data, price)
    if at_least is not None:
        image.draft(None, (at_least, at_least))  # formats that cannot do it stay as they are
    if price.format in _FRAMED:
        return _first_frame(image)
    image.load()
    return image


def _opened(data: bytes, price: Price) -> Image.Image:
    if price.format == "TIFF":
        check_layout(data)
    elif price.format == "HEIF":
        can_heif()
    try:
        image = Image.open(io.BytesIO(data), formats=(price.format,))
    except UnidentifiedImageError as error:
        if price.format == "TIFF" and has_header(data):
            raise unsupported("this layout of numbers") from error
        raise _unreadable(f"a {price.format} of {len(data)} bytes with a broken header") from error
    if image.width * image.height > price.pixels:
        raise _unreadable(f"a {price.format} of {len(data)} bytes whose header contradicts itself")
    return image


def _first_frame(image: Any) -> Image.Image:
    """Copy a WebP's or AVIF's picture, after its decoder, which holds two or three more of them, is let go."""
    decoder, image._decoder = image._decoder, None
    frame = decoder.get_next() if image.format == "WEBP" else decoder.get_frame(0)
    if frame is None:
        raise EOFError("no frame")
    del decoder
    rawmode = image.rawmode if image.format == "WEBP" else image.mode
    picture = Image.frombytes(image.mode, image.size, frame[0], "raw", rawmode)
    picture.info = image.info
    return picture


def _turn(image: Image.Image) -> None:
    """Turn it as its EXIF says, in its own place: two of a large one are not held for longer than it takes."""
    if _turned(image):
        ImageOps.exif_transpose(image, in_place=True)


def _turned(image: Image.Image) -> bool:
    try:
        return bool(image.getexif().get(ExifTags.Base.Orientation, 1) != 1)
    except Exception:
        return False  # EXIF that cannot be read turns nothing


def _unreadable(message: str) -> ImageUnreadable:
    return ImageUnreadable(message, fix="send the whole file; re-save it if other programs cannot open it either")


# What a colour profile is made of, read before LittleCMS computes what it says.

MAX_PROFILE = 2**20  # bytes; a printer's profile has half of that
MAX_TAGS = 100
_CLASSES = (b"scnr", b"mntr", b"prtr", b"spac", b"abst")  # neither links of devices nor names of colours
_TAGS_AT = 132
_TAG = struct.Struct(">4sII")


def can_be_used(profile: bytes) -> bool:
    """Return whether building its transform is bounded work: some 50 ms, and memory of about its own size.

    A list of processing steps (`mpet`) is not: each step may be named any number of times. Neither is a table that
    announces more values than the file has bytes, for its memory is taken before they are read.
    """
    if not _TAGS_AT <= len(profile) <= MAX_PROFILE or profile[12:16] not in _CLASSES:
        return False
    count = int.from_bytes(profile[128:_TAGS_AT], "big")
    end = _TAGS_AT + count * _TAG.size
    if count > MAX_TAGS or end > len(profile):
        return False
    return all(_bounded(profile, name, at) for name, at, _ in _TAG.iter_unpack(profile[_TAGS_AT:end]))


def _bounded(profile: bytes, name: bytes, at: int) -> bool:
    kind = profile[at : at + 4]
    if kind == b"mpet" or name[:3] in (b"D2B", b"B2D"):
        return False
    return kind not in (b"mft1", b"mft2", b"mAB ", b"mBA ") or _values(profile, at) <= len(profile)


def _values(profile: bytes, at: int) -> int:
    """Return how many values the table at this place announces; none where the file ends first."""
    head = profile[at : at + 32].ljust(32, b"\0")
    inputs, outputs = head[8], head[9]
    if head[:3] == b"mft":
        return int(head[10] ** inputs * outputs)
    start = int.from_bytes(head[24:28], "big")  # of the table, behind the place of the tag
    return math.prod(profile[at + start : at + start + min(inputs, 16)]) * outputs if start else 0
