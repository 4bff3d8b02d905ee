"""Colour profiles written by their structure: tags of every kind, any number of steps, points and grids, some wrong."""

from __future__ import annotations

import io
import random
import struct
import sys
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from hard_profiles import Tags, curve, formula, icc, names, primaries, stages, steps, table8, table16, words

SPACES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK", b"Lab ": "LAB"}
KINDS = {
    "JPEG": ("RGB", "L", "CMYK"),
    "PNG": ("RGB", "L", "RGBA"),
    "WEBP": ("RGB", "RGBA"),
    "TIFF": ("LAB", "CMYK", "RGB"),
}
CLASSES = (b"mntr", b"mntr", b"mntr", b"prtr", b"scnr", b"spac", b"abst", b"link", b"nmcl")
TABLES = (b"A2B0", b"A2B0", b"A2B1", b"B2A0", b"D2B0", b"D2B1", b"B2D0", b"ncl2", b"desc", b"chad", b"kTRC", b"pseq")
COUNTS = (0, 1, 2, 3, 9, 100, 256, 4096, 32_767, 32_768, 65_535, 130_000)


def profiled(kind: str, chance: random.Random) -> bytes:
    """A picture of this format with a profile that no program has written."""
    mode = chance.choice(KINDS[kind])
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
    buffer = io.BytesIO()
    image = Image.frombytes(mode, (32, 32), chance.randbytes(32 * 32 * len(Image.new(mode, (1, 1)).getbands())))
    image.save(buffer, kind, icc_profile=profile(mode, chance), **options)
    return buffer.getvalue()


def profile(mode: str, chance: random.Random) -> bytes:
    """A profile for a picture of this mode, or now and then of another; seldom with a number that is wrong."""
    fitting = next((space for space, fits in SPACES.items() if fits == mode), b"RGB ")
    space = fitting if chance.random() < 0.9 else chance.choice(list(SPACES))
    channels = {b"GRAY": 1, b"CMYK": 4}.get(space, 3)
    tags: Tags = primaries(_curve(chance)) if chance.random() < 0.4 else []
    tags += [
        (chance.choice(TABLES), _contents(channels, chance)) for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 110)))
    ]
    made = bytearray(
        icc(tags, space, chance.choice((b"Lab ", b"XYZ ")), chance.choice(CLASSES), chance.choice((2, 4, 4, 5)))
    )
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        struct.pack_into(
            ">I", made, chance.randrange(128, min(len(made), 900) - 3), chance.choice((0, 1, 99, 2**16, 2**32 - 1))
        )
    return bytes(made)


def _curve(chance: random.Random) -> bytes:
    return formula(chance.randrange(5)) if chance.random() < 0.5 else curve(chance.choice(COUNTS[1:10]))


def _contents(channels: int, chance: random.Random) -> bytes:
    grid = chance.choice((1, 2, 5, 9, 60, 95, 255))
    stored = None if grid < 10 else 100
    way = chance.randrange(7)
    if way == 0:
        return steps(chance.choice(COUNTS))
    if way == 1:
        return table8(channels, grid, stored=stored)
    if way == 2:
        return table16(channels, grid, chance.choice(COUNTS[2:9]), stored=stored)
    if way == 3:
        return words(chance.choice((1, 2**16, 2**25)))
    if way == 4:
        return names(chance.choice(COUNTS[:7]))
    return stages(channels, grid, _curve(chance), stored=stored)
