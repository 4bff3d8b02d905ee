"""Pictures made of two photos: one pasted into the other, cropped back to it, and its colours exchanged."""

from __future__ import annotations

from PIL import Image

KINDS = ("pasted", "cropped", "recoloured")


def edited(donor: Image.Image, host: Image.Image, side: int, corner: int) -> dict[str, Image.Image]:
    """Return the picture of each kind; both photos are seen by their central squares.

    pasted: the donor in one quarter of the host. cropped: that quarter alone, so that the host is gone. recoloured: the
    donor with red, green and blue exchanged in turn.
    """
    canvas, patch = square(host, 2 * side), square(donor, side)
    left, top = corner % 2 * side, corner // 2 % 2 * side
    canvas.paste(patch, (left, top))
    red, green, blue = square(donor, 2 * side).split()
    return {
        "pasted": canvas,
        "cropped": canvas.crop((left, top, left + side, top + side)),
        "recoloured": Image.merge("RGB", (green, blue, red)),
    }


def square(image: Image.Image, side: int) -> Image.Image:
    """Return the central square of a photo at this side."""
    short = min(image.size)
    left, top = (image.width - short) / 2, (image.height - short) / 2
    return image.resize((side, side), Image.Resampling.BICUBIC, (left, top, left + short, top + short))
