"""Images as they really are, each made here in its odd form and compared with the plain one."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage
from PIL import Image, ImageCms

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported
from nonneg_core.pixels import decode as colour
from nonneg_core.pixels import decode as module
from nonneg_core.pixels import identify as identifying
from nonneg_core.pixels.decode import decode, profile_transform
from nonneg_core.pixels.identify import MAX_PIXELS, signature

PHOTOS = Path(skimage.__file__).parent / "data"


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    """A cat, small enough to be quick."""
    with Image.open(PHOTOS / "chelsea.png") as image:
        return image.convert("RGB").resize((150, 100))


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def apart(found: Image.Image, wanted: Image.Image) -> float:
    """Mean distance of two pictures, in steps of 255."""
    assert (found.mode, found.size) == ("RGB", wanted.size)
    return float(np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).mean())


@pytest.mark.parametrize(
    ("kind", "options", "tolerance"),
    [
        ("PNG", {}, 0),
        ("BMP", {}, 0),
        ("TIFF", {}, 0),
        ("TIFF", {"compression": "tiff_lzw"}, 0),
        ("WEBP", {"lossless": True}, 0),
        ("WEBP", {"quality": 95}, 4),
        ("AVIF", {"quality": 95}, 4),
        ("JPEG", {"quality": 95}, 4),
        ("JPEG", {"quality": 95, "progressive": True}, 4),
        ("GIF", {}, 12),
    ],
)
def test_every_format_gives_the_same_picture(
    photo: Image.Image, kind: str, options: dict[str, Any], tolerance: float
) -> None:
    data = saved(photo, kind, **options)
    assert signature(data) == kind
    assert apart(decode(data), photo) <= tolerance


def test_a_heic_is_decoded_where_a_decoder_is_installed(photo: Image.Image) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    data = saved(photo, "HEIF", quality=95)
    assert signature(data) == "HEIF"
    assert apart(decode(data), photo) <= 4


@pytest.mark.parametrize("decoder", ["pi_heif", "pillow_heif"])
def test_either_decoder_reads_a_heic_and_refuses_half_of_one(photo: Image.Image, tmp_path: Path, decoder: str) -> None:
    """In a process of its own, where the other decoder is not to be had."""
    pytest.importorskip(decoder)
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    (tmp_path / "a.heic").write_bytes(saved(photo, "HEIF", quality=95))
    (tmp_path / "cut.heic").write_bytes((tmp_path / "a.heic").read_bytes()[:-2000])
    other = "pillow_heif" if decoder == "pi_heif" else "pi_heif"
    script = (
        f"import sys; sys.modules[{other!r}] = None\n"
        "from pathlib import Path\nfrom nonneg_core.errors import ImageUnreadable\n"
        "from nonneg_core.pixels.decode import decode\n"
        "decode(Path('a.heic').read_bytes()).save('a.png')\n"
        "try:\n decode(Path('cut.heic').read_bytes())\nexcept ImageUnreadable:\n print('unreadable')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("unreadable\n", "")
    with Image.open(tmp_path / "a.png") as found:
        assert apart(found, photo) <= 5


def test_a_picture_of_several_from_a_telephone_is_its_first(photo: Image.Image) -> None:
    """MPO: a JPEG with further ones behind it."""
    other = Image.new("RGB", (20, 10))
    data = saved(photo, "MPO", save_all=True, append_images=[other], quality=95)
    assert signature(data) == "JPEG"
    assert apart(decode(data), photo) <= 4


def test_a_heic_without_a_decoder_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identifying, "can_heif", lambda: False)
    with pytest.raises(ImageUnsupported, match="the extra heic"):
        decode(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_a_photo_turned_by_exif_stands_upright(photo: Image.Image, orientation: int, kind: str) -> None:
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = photo.transpose(undo[orientation]) if orientation > 1 else photo
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}}.get(kind, {})
    assert apart(decode(saved(stored, kind, exif=exif, **options)), photo) <= 4


@pytest.mark.filterwarnings("ignore:Corrupt EXIF:UserWarning")  # decode ignores what Pillow says; pytest undoes that
def test_broken_exif_turns_nothing_and_refuses_nothing(photo: Image.Image) -> None:
    data = saved(photo, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + bytes(30))
    assert apart(decode(data), photo) <= 6


def test_a_cmyk_jpeg_looks_like_its_rgb_self(photo: Image.Image) -> None:
    assert apart(decode(saved(photo.convert("CMYK"), "JPEG", quality=95)), photo) <= 6


def test_grey_pictures_become_three_equal_channels(photo: Image.Image) -> None:
    grey = photo.convert("L")
    assert apart(decode(saved(grey, "PNG")), grey.convert("RGB")) == 0
    assert apart(decode(saved(grey, "JPEG", quality=95)), grey.convert("RGB")) <= 3
    assert decode(saved(photo.convert("1"), "PNG")).mode == "RGB"


def test_sixteen_bits_are_scaled_and_not_clipped(photo: Image.Image) -> None:
    grey = np.asarray(photo.convert("L"))
    deep = Image.fromarray(grey.astype(np.uint16) * 257)
    for kind in ("PNG", "TIFF"):
        assert apart(decode(saved(deep, kind)), photo.convert("L").convert("RGB")) == 0


def test_floating_point_pictures_are_refused() -> None:
    with pytest.raises(ImageUnsupported, match="floating-point"):
        decode(saved(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF"))


@pytest.mark.parametrize("background", [(255, 255, 255), (0, 0, 0), (10, 200, 30)])
def test_transparency_shows_the_background(photo: Image.Image, background: tuple[int, int, int]) -> None:
    alpha = Image.new("L", photo.size, 255)
    alpha.paste(0, (0, 0, 75, 100))
    alpha.paste(128, (75, 0, 80, 100))
    clear = photo.copy()
    clear.putalpha(alpha)
    wanted = np.asarray(photo, np.float64)
    share = np.asarray(alpha, np.float64)[..., None] / 255
    wanted = wanted * share + np.float64(background) * (1 - share)
    reference = Image.fromarray(wanted.round().astype(np.uint8))
    for kind in ("PNG", "WEBP"):
        options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
        assert apart(decode(saved(clear, kind, **options), background=background), reference) < 0.1


def test_a_palette_with_a_transparent_colour_shows_the_background() -> None:
    image = Image.new("P", (4, 2), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.paste(1, (2, 0, 4, 2))
    for kind in ("PNG", "GIF"):
        found = np.asarray(decode(saved(image, kind, transparency=0), background=(1, 2, 3)))
        assert found[0, 0].tolist() == [1, 2, 3]
        assert found[0, 3].tolist() == [0, 0, 255]


def test_sixteen_bit_grey_with_a_transparent_value_shows_the_background() -> None:
    values = np.array([[0x1234, 0xFFFF]], np.uint16)
    data = saved(Image.fromarray(values), "PNG", transparency=0x1234)
    assert np.asarray(decode(data, background=(9, 8, 7))).tolist() == [[[9, 8, 7], [255, 255, 255]]]


def every_mode(photo: Image.Image) -> dict[str, Image.Image]:
    noise = np.random.default_rng(0).integers(-5, 70000, (100, 150))
    deep = Image.fromarray(noise.clip(0, 65535).astype(np.uint16))
    clear = photo.copy()
    clear.putalpha(deep.point(lambda value: value / 256).convert("L"))
    found = {mode: photo.convert(mode) for mode in ("1", "L", "P", "RGB", "CMYK", "YCbCr")}
    found |= {"RGBA": clear, "LA": clear.convert("LA"), "I;16": deep, "I": Image.fromarray(noise.astype(np.int32))}
    for mode, transparent in (("P", 3), ("L", 90), ("RGB", photo.getpixel((0, 0))), ("I;16", int(noise[1, 1]))):
        found[f"{mode}, one colour transparent"] = found[mode].copy()
        found[f"{mode}, one colour transparent"].info["transparency"] = transparent
    found["CMYK with a profile"] = found["RGB"].copy()
    found["CMYK with a profile"].info["icc_profile"] = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
    return found


def test_a_large_image_in_strips_is_what_it_is_at_once(photo: Image.Image) -> None:
    small = photo.resize((150, 100))
    for mode, image in every_mode(small).items():
        whole = np.asarray(colour.opaque_srgb(image, (9, 99, 200)))
        in_strips = colour.opaque_srgb(image, (9, 99, 200), strip=150 * 7)
        np.testing.assert_array_equal(in_strips, whole, err_msg=mode)


def test_an_image_that_stands_upright_is_not_copied(photo: Image.Image) -> None:
    plain = Image.open(io.BytesIO(saved(photo, "PNG")))
    assert module.upright_rgb(plain) is plain


def test_the_first_frame_of_an_animation_is_taken() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "WEBP", "PNG", "TIFF"):
        options = {"lossless": True} if kind == "WEBP" else {}
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert np.asarray(decode(data))[0, 0].tolist() == [255, 0, 0]


def test_an_interlaced_png_is_read() -> None:
    """Adam7 by hand, for Pillow writes none: one grey 1 x 1 image has a single pass."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 1))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\x7b")) + chunk(b"IEND", b"")
    assert np.asarray(decode(data)).tolist() == [[[123] * 3]]


def test_an_embedded_profile_is_converted_to_srgb(photo: Image.Image) -> None:
    """A profile with red and blue exchanged: what it says is what must be seen."""
    lab = ImageCms.createProfile("LAB")
    data = saved(photo, "TIFF", icc_profile=ImageCms.ImageCmsProfile(lab).tobytes())
    assert apart(decode(data), photo) == 0  # a profile of another colour space is not this picture's
    assert apart(decode(saved(photo, "PNG", icc_profile=swapped())), Image.merge("RGB", photo.split()[::-1])) < 3


def swapped() -> bytes:
    """The sRGB profile with its red and blue primaries exchanged: the picture's red is the screen's blue."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    count = struct.unpack(">I", profile[128:132])[0]
    for i in range(count):
        at = 132 + 12 * i
        name = bytes(profile[at : at + 4])
        if name in (b"rXYZ", b"bXYZ"):
            profile[at : at + 4] = b"bXYZ" if name == b"rXYZ" else b"rXYZ"
    return bytes(profile)


def test_srgb_and_broken_profiles_change_nothing(photo: Image.Image) -> None:
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert profile_transform(srgb, "RGB") is None
    for profile in (srgb, b"broken", srgb[:200]):
        assert apart(decode(saved(photo, "PNG", icc_profile=profile)), photo) == 0


def test_one_profile_serves_many_threads(photo: Image.Image) -> None:
    data = saved(photo, "PNG", icc_profile=swapped())
    wanted = decode(data).tobytes()
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.extend(decode(data).tobytes() == wanted for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "BMP", "TIFF", "GIF"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_a_cut_off_file_is_unreadable(photo: Image.Image, kind: str, share: float) -> None:
    data = saved(photo, kind)
    with pytest.raises(ImageUnreadable):
        decode(data[: max(16, int(len(data) * share))])


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"<svg/>", b"%PDF-1.7", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\0" * 100, b"BLP2",
     b"\x89PNG", b"RIFF\0\0\0\0WAVE"],
)  # fmt: skip
def test_what_is_not_an_image_is_unsupported(data: bytes) -> None:
    with pytest.raises(ImageUnsupported):
        decode(data)


def test_flipped_bits_never_escape_as_other_errors(photo: Image.Image) -> None:
    rng = np.random.default_rng(0)
    for kind in ("JPEG", "PNG", "WEBP", "AVIF", "BMP", "TIFF", "GIF"):
        whole = bytearray(saved(photo, kind))
        for _ in range(40):
            broken = bytearray(whole)
            for at in rng.integers(0, min(len(whole), 2000), 6):
                broken[at] ^= 1 << int(rng.integers(8))
            try:
                decode(bytes(broken), max_pixels=1_000_000)
            except (ImageUnreadable, ImageUnsupported, ImageTooLarge):
                continue


@pytest.mark.parametrize("side", [12_000, 20_000, 60_000])
def test_a_bomb_is_refused_by_its_header(side: int) -> None:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    with pytest.raises(ImageTooLarge) as refused:
        decode(data)
    assert refused.value.limit == MAX_PIXELS


def test_a_photo_within_the_limit_is_not_too_large(photo: Image.Image) -> None:
    data = saved(photo, "PNG")
    assert decode(data, max_pixels=15_000).size == (150, 100)
    with pytest.raises(ImageTooLarge, match="150 x 100"):
        decode(data, max_pixels=14_999)
