"""One list of formats: what the decoder reads is what folders are searched for, in the client and in training."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, features

from nonneg_core.files.image_files import find_images
from nonneg_core.pixels.formats import FORMATS, OF_IMAGES, SUFFIXES
from nonneg_core.pixels.identify import can_heif, identify, signature


def saved(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 40, 40)).save(buffer, kind)
    return buffer.getvalue()


def test_every_format_of_the_list_is_read_and_every_other_that_pillow_writes_is_refused() -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    assert features.check("avif")
    Image.init()
    for kind in FORMATS:
        assert signature(saved(kind)) == kind
        assert identify(saved(kind)).format == kind
    others = [kind for kind in Image.SAVE if kind not in {*FORMATS, "MPO", "PDF"}]
    for kind in ("PPM", "JPEG2000", "TGA", "ICO", "PCX", "DIB", "EPS"):
        assert kind in others
        assert signature(saved(kind)) is None


@pytest.mark.parametrize("kind", FORMATS)
def test_the_endings_of_a_format_are_those_that_pillow_knows(kind: str) -> None:
    assert can_heif()
    Image.init()
    known = {suffix for suffix, found in Image.registered_extensions().items() if found == kind}
    assert known == set(SUFFIXES[kind]) - {".mpo"}  # of several pictures, the first of which is a JPEG


def test_folders_are_searched_for_every_ending_and_for_no_other(tmp_path: Path) -> None:
    wanted = {tmp_path / f"a{suffix}" for suffix in OF_IMAGES} | {tmp_path / "b.HEIC"}
    for path in (*wanted, *(tmp_path / f"a.{other}" for other in ("ppm", "pgm", "jp2", "tga", "txt", "json"))):
        path.write_bytes(b"")
    assert set(find_images(tmp_path)) == wanted
