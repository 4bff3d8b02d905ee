"""TIFFs as microscopes, scanners and GIS write them: read as they look, or refused by name; never wrong in silence."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
import skimage
from PIL import Image, ImageCms

from nonneg_core.errors import ImageUnreadable, ImageUnsupported, NonnegError
from nonneg_core.pixels.decode import decode

tifffile = pytest.importorskip("tifffile")
PHOTOS = Path(skimage.__file__).parent / "data"


def chelsea() -> Image.Image:
    return Image.open(PHOTOS / "chelsea.png").convert("RGB").resize((75, 50))


RGB = np.asarray(chelsea())
GREY = RGB[..., 1]
WIDE, WIDE_GREY = RGB.astype(np.uint16) * 257, GREY.astype(np.uint16) * 257


def written(array: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, array, **options)
    return buffer.getvalue()


def saved(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "TIFF", **options)
    return buffer.getvalue()


def lab(image: Image.Image) -> Image.Image:
    srgb, other = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    found = ImageCms.applyTransform(image, ImageCms.buildTransform(srgb, other, "RGB", "LAB"))
    assert found is not None
    return found


COLOUR: dict[str, bytes] = {
    "8 bits": written(RGB, photometric="rgb"),
    "16 bits": written(WIDE, photometric="rgb"),
    "8 bits in planes": written(np.moveaxis(RGB, -1, 0), photometric="rgb", planarconfig="separate"),
    "big": written(RGB, photometric="rgb", bigtiff=True),
    "pages": written(np.stack([RGB, 255 - RGB]), photometric="rgb"),
    "16 bits and alpha": written(
        np.dstack([WIDE, np.full_like(WIDE_GREY, 65535)]), photometric="rgb", extrasamples=["unassalpha"]
    ),
    "CMYK": saved(chelsea().convert("CMYK")),
    "16-bit CMYK": written(np.asarray(chelsea().convert("CMYK")).astype(np.uint16) * 257, photometric="separated"),
    "LAB": saved(lab(chelsea())),
    "JPEG inside": saved(chelsea(), compression="jpeg", quality=95),
    "deflate": saved(chelsea(), compression="tiff_adobe_deflate"),
}
if int(PIL.__version__.partition(".")[0]) >= 13:  # those before write, and expect, too few bytes
    COLOUR["YCbCr"] = saved(chelsea().convert("YCbCr"))


@pytest.mark.parametrize("name", COLOUR)
def test_colour_is_read_as_it_looks(name: str) -> None:
    found = np.asarray(decode(COLOUR[name]), np.int16)
    assert np.abs(found - RGB).mean() < 2


@pytest.mark.parametrize("alpha", ["unassalpha", "assocalpha"])
def test_what_is_transparent_shows_the_background(alpha: str) -> None:
    share = np.repeat(np.linspace(0, 1, GREY.shape[1])[None], len(GREY), 0)[..., None]
    stored = RGB * share if alpha == "assocalpha" else RGB
    data = written(np.dstack([stored, share * 255]).astype(np.uint8), photometric="rgb", extrasamples=[alpha])
    wanted = RGB * share + 255 * (1 - share)
    assert np.abs(np.asarray(decode(data), np.float64) - wanted).mean() < 3


@pytest.mark.parametrize(
    "data",
    [
        written(GREY), written(WIDE_GREY), written(WIDE_GREY.astype(">u2"), byteorder=">"),
        written(255 - GREY, photometric="miniswhite"),
    ],
)  # fmt: skip
def test_grey_is_read_as_it_looks(data: bytes) -> None:
    assert np.abs(np.asarray(decode(data), np.int16) - GREY[..., None]).mean() < 1


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (written((RGB / 255).astype(np.float32), photometric="rgb"), "floating-point"),
        (written((GREY / 255).astype(np.float32)), "floating-point"),
        (written((GREY / 255).astype(np.float16)), "floating-point"),
        (written(GREY / 255), "floating-point"),
        (written(GREY.astype(np.complex64)), "complex"),
        (written(GREY.astype(np.uint32) << 24), "32 bits"),
        (written(GREY.astype(np.int32)), "signed"),
        (written(GREY.astype(np.int16)), "signed"),
        (written((GREY // 2).astype(np.int8)), "signed"),
        (written(np.moveaxis(WIDE, -1, 0), photometric="rgb", planarconfig="separate"), "separate planes"),
        (written(65535 - WIDE_GREY, photometric="miniswhite"), "zero is white"),
        (written(np.dstack([WIDE_GREY] * 2), photometric="minisblack", planarconfig="contig"), "layout"),
    ],
)
def test_what_would_be_read_wrongly_is_refused_by_name(data: bytes, what: str) -> None:
    with pytest.raises(ImageUnsupported, match=what) as refused:
        decode(data)
    assert refused.value.status == 415
    assert "8 bits a channel" in str(refused.value.fix)


@pytest.mark.parametrize("data", [b"II*\0", b"II*\0\x08\0\0\0", b"MM\0*\xff\xff\xff\xff", b"II+\0" + bytes(12)])
def test_a_header_that_leads_nowhere_is_unreadable(data: bytes) -> None:
    with pytest.raises(ImageUnreadable):
        decode(data)


def test_flipped_bytes_never_escape_as_other_errors() -> None:
    rng = np.random.default_rng(0)
    samples = [
        COLOUR["16 bits"][:300] + COLOUR["16 bits"][-300:],
        written(GREY[:9, :9]),
        saved(chelsea().crop((0, 0, 9, 9))),
    ]
    for _ in range(600):
        data = bytearray(samples[rng.integers(len(samples))])
        for at in rng.integers(0, min(len(data), 400), rng.integers(1, 5)):
            data[at] = rng.integers(256)
        with contextlib.suppress(NonnegError):
            assert decode(bytes(data), max_pixels=10**6).mode == "RGB"
