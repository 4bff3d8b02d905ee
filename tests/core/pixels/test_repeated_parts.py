"""Every chunk, segment, block, tag and box that a decoder knows, as often as the limits let in: bounded work.

What is decoded here takes no longer than its price, or is refused. What is decoded apart ends within the limits of that
process, and others are answered after it.
"""

from __future__ import annotations

import io
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image, ImageCms, JpegImagePlugin, PngImagePlugin, TiffTags

from nonneg_core.errors import ImageTooLarge, NonnegError
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.decoder_process import ROOM, of_this_thread
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.pricing.price import MAX_PARTS, MAX_SECONDS, Price

MOST = 2**25  # bytes of a file
SLACK = 0.1  # seconds
MUCH = zlib.compress(bytes(2**20 - 1), 9)
EXIF = b"MM\0*\0\0\0\x08"
EXIFS = EXIF + b"\0\xf0" + struct.pack(">HHII", 270, 2, 1, 0) * 240
LONG = 3_000  # bytes: ten thousand such chunks fit into a file
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
Bodies = dict[str, list[Callable[[int], bytes]]]  # contents of the part of that number
PNG: Bodies = {
    "IHDR": [lambda _: struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)],
    "PLTE": [lambda _: bytes(768)],
    "IDAT": [lambda _: b"", lambda _: MUCH],
    "IEND": [lambda _: b""],
    "tRNS": [lambda _: bytes(6), lambda _: bytes(LONG)],
    "gAMA": [lambda _: bytes(4)],
    "cHRM": [lambda _: bytes(32), lambda _: bytes(LONG)],
    "sRGB": [lambda _: b"\0"],
    "pHYs": [lambda _: bytes(9)],
    "iCCP": [lambda _: b"a\0\0" + MUCH, lambda _: b"a\0\0" + zlib.compress(b"x")],
    "tEXt": [lambda n: b"%d\0a" % n, lambda n: b"%d\0" % n + bytes(LONG)],
    "zTXt": [lambda n: b"%d\0\0" % n + MUCH, lambda n: b"%d\0\0" % n + zlib.compress(b"x")],
    "iTXt": [lambda n: b"%d\0\1\0\0\0" % n + MUCH, lambda n: b"%d\0\0\0\0\0" % n + bytes(LONG)],
    "eXIf": [lambda _: EXIF + b"\0\0", lambda _: EXIFS],
    "acTL": [lambda _: struct.pack(">II", 2**31 - 1, 0), lambda _: struct.pack(">II", 2, 0)],
    "fcTL": [lambda n: struct.pack(">IIIIIHHBB", n, 8, 8, 0, 0, 1, 1, 0, 0)],
    "fdAT": [lambda n: struct.pack(">I", n) + zlib.compress(bytes(200)), lambda n: struct.pack(">I", n) + MUCH],
    "abCd": [lambda _: bytes(LONG)],
}  # fmt: skip
JPEG: Bodies = {
    **{f"APP{n}": [lambda _: b"", lambda _: bytes(LONG)] for n in range(16)},
    "JFIF": [lambda _: b"JFIF\0\1\2\1\0\1\0\1\0\0"],
    "Exif": [lambda _: b"Exif\0\0" + EXIFS, lambda _: b"Exif\0\0"],
    "XMP": [lambda _: b"http://ns.adobe.com/xap/1.0/\0" + b"tiff:Orientatio" * 200],
    "ICC_PROFILE": [lambda n: b"ICC_PROFILE\0" + bytes([n % 255 + 1, 255]) + PROFILE,
                    lambda _: b"ICC_PROFILE\0\1\1" + PROFILE],
    "FPXR": [lambda _: b"FPXR\0" + bytes(LONG)],
    "MPF": [lambda _: b"MPF\0" + EXIFS],
    "Photoshop": [lambda _: b"Photoshop 3.0\0" + b"8BIM\3\xed\0\0\0\0\0\0" * 5_000,
                  lambda _: b"Photoshop 3.0\0" + b"8BIM\4\4\0\0\0\0\0\0" * 250],
    "Adobe": [lambda _: b"Adobe\0\x64\0\0\0\0\1"],
    "COM": [lambda _: b"", lambda _: bytes(LONG)],
    "DQT": [lambda _: b"\0" + b"\1" * 64, lambda _: (b"\0" + b"\1" * 64) * 45],
    "DHT": [lambda _: b"\0\0\1" + bytes(15)],
    "DAC": [lambda _: b"\0\0"],
    "DNL": [lambda _: b"\0\x08"],
    "DRI": [lambda _: b"\0\0"],
    "DHP": [lambda _: b"\x08\0\x08\0\x08\1\1\x11\0"],
    "EXP": [lambda _: b"\0"],
    "SOS": [lambda _: b"\1\1\0\0\x3f\0"],
    **{f"SOF{n}": [lambda _: b"\x08\0\x08\0\x08\3\1\x11\0\2\x11\0\3\x11\0"]
       for n in range(16) if n not in (4, 8, 12)},
    "JPG": [lambda _: b"\xff\xe5\0\2" * 750, lambda _: b""],
    **{f"JPG{n}": [lambda _: b"\xff\xe5\0\2" * 750, lambda _: b""] for n in range(14)},
    **{f"RST{n}": [lambda _: b"\xff\xe5\0\2" * 750, lambda _: b""] for n in range(8)},
    "SOI": [lambda _: b"\xff\xe5\0\2" * 750],
    "EOI": [lambda _: b"\xff\xe5\0\2" * 750],
}  # fmt: skip
MARKERS = {name: marker & 255 for marker, (name, *_) in JpegImagePlugin.MARKER.items()}
MARKERS |= {"JFIF": 0xE0, "Exif": 0xE1, "XMP": 0xE1, "ICC_PROFILE": 0xE2, "FPXR": 0xE2, "MPF": 0xE2, "Photoshop": 0xED,
            "Adobe": 0xEE}  # fmt: skip


def frame_of_a_film(_: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(buffer, "WEBP", lossless=True)
    return bytes(6) + b"\7\0\0\7\0\0\1\0\0\0" + buffer.getvalue()[12:]


WEBP: Bodies = {
    "VP8X": [lambda _: b"\x3e\0\0\0\7\0\0\7\0\0"],
    "VP8 ": [lambda _: b"", lambda _: bytes(LONG)],
    "VP8L": [lambda _: b"\x2f\7\xc0\1\0", lambda _: bytes(LONG)],
    "ALPH": [lambda _: b"\0", lambda _: bytes(LONG)],
    "ANIM": [lambda _: bytes(6)],
    "ANMF": [frame_of_a_film, lambda _: bytes(16)],
    "ICCP": [lambda _: PROFILE, lambda _: bytes(2)],
    "EXIF": [lambda _: EXIFS, lambda _: b"Exif\0\0" + EXIFS],
    "XMP ": [lambda _: b"tiff:Orientatio" * 200],
    "abcd": [lambda _: b"", lambda _: bytes(LONG)],
}
BODIES = {"PNG": PNG, "JPEG": JPEG, "WEBP": WEBP}
CASES = [
    (kind, name, which) for kind in BODIES for name, bodies in BODIES[kind].items() for which in range(len(bodies))
]
PLACES = ["at the beginning", "before the pixels", "behind the pixels"]


def test_no_part_that_pillow_knows_is_forgotten() -> None:
    chunks = {name.removeprefix("chunk_") for name in dir(PngImagePlugin.PngStream) if name.startswith("chunk_")}
    assert chunks <= set(PNG)
    assert {name for name, *_ in JpegImagePlugin.MARKER.values()} <= set(JPEG)


def saved(kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 30, 10)).save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def part(kind: str, name: str, body: bytes) -> bytes:
    if kind == "PNG":
        return chunk(name.encode(), body)
    if kind == "WEBP":
        return name.encode() + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)
    return b"\xff" + bytes([MARKERS[name]]) + struct.pack(">H", len(body) + 2) + body


def repeated(kind: str, name: str, which: int, count: int, place: str) -> bytes:
    """An image of 8 x 8 with so many of these parts."""
    many = b"".join(part(kind, name, BODIES[kind][name][which](n)) for n in range(count))
    if kind == "PNG":
        plain = saved("PNG")
        at = {PLACES[0]: 33, PLACES[1]: plain.index(b"IDAT") - 4, PLACES[2]: len(plain) - 12}[place]
    elif kind == "JPEG":
        plain = saved("JPEG")
        frame, scan = plain.index(b"\xff\xc0"), plain.index(b"\xff\xda")
        at = {PLACES[0]: frame, PLACES[1]: scan, PLACES[2]: len(plain) - 2}[place]
    else:
        plain = saved("WEBP", lossless=True, exif=b"Exif\0\0" + EXIF + b"\0\0")
        at = {PLACES[0]: 30, PLACES[1]: plain.index(b"VP8L"), PLACES[2]: len(plain)}[place]
    data = plain[:at] + many + plain[at:]
    return data if kind != "WEBP" else data[:4] + struct.pack("<I", len(data) - 8) + data[8:]


def most_accepted(kind: str, name: str, which: int, place: str) -> tuple[bytes, Price] | None:
    count = MAX_PARTS - 10
    while count:
        data = repeated(kind, name, which, count, place)
        with suppress(ImageTooLarge):
            if len(data) <= MOST:
                with suppress(NonnegError):
                    return data, identify(data)
                return None  # refused for what it is, not for how many there are
        count = count * 3 // 5
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("kind", "name", "which"), CASES)
def test_a_part_repeated_as_often_as_may_be_takes_no_longer_than_its_price(
    kind: str, name: str, which: int, place: str
) -> None:
    found = most_accepted(kind, name, which, place)
    if found is None:
        return
    data, price = found

    def once() -> float:
        before = time.process_time()
        with suppress(NonnegError):
            decode(data)
        return time.process_time() - before

    bound = 2 * price.seconds + SLACK
    assert any(once() < bound for _ in range(3))  # a core that is shared does less in a second


# Formats that are decoded apart: what their decoders know, repeated without a limit but the file's.

MUCH_OF_A_FILE = 2**22  # bytes


def gif(block: bytes) -> bytes:
    plain = saved("GIF")
    at = plain.index(b",\0\0\0\0")
    return plain[:at] + block * (MUCH_OF_A_FILE // len(block)) + plain[at:]


def gifs() -> Iterator[tuple[str, bytes]]:
    blocks = {
        "text": b"!\x01\x0c" + bytes(12) + b"\1a\0", "control": b"!\xf9\4\1\0\0\0\0", "comment": b"!\xfe\1a\0",
        "application": b"!\xff\x0bNETSCAPE2.0\3\1\0\0\0", "profile": b"!\xff\x0bICCRGBG1012\xff" + bytes(255) + b"\0",
        "xmp": b"!\xff\x0bXMP DataXMP\1a\0", "unknown": b"!\x02\0", "junk": b"\0", "end": b";",
        "words": b"!\xfe" + b"\1a" * 99 + b"\0",
        "picture": b",\0\0\0\0\1\0\1\0\0\2\2\x44\1\0",
    }  # fmt: skip
    for name, block in blocks.items():
        yield f"gif, {name}", gif(block)


def tiff(*more: tuple[int, int, int, int]) -> bytes:
    """A grey picture of 8 x 8 with these tags, whose values all lie at one place."""
    tags = [(256, 4, 1, 8), (257, 4, 1, 8), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8)]
    tags += [(277, 3, 1, 1), (278, 4, 1, 8), (279, 4, 1, 64), *more]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)
    return b"II*\0" + struct.pack("<I", MUCH_OF_A_FILE) + bytes(MUCH_OF_A_FILE - 8) + directory


def tiffs() -> Iterator[tuple[str, bytes]]:
    sizes = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
    for kind, size in sizes.items():
        values = (MUCH_OF_A_FILE - 64) // size
        yield f"tiff, kind {kind}", tiff(*((60_000 + n, kind, values, 16) for n in range(200)))
    known = [tag for tag in TiffTags.TAGS_V2 if tag not in (256, 257, 258, 259, 262, 273, 277, 278, 279)]
    for tag in (258, 273, 279, 320, 338, 339, 347, 700, 34377, 34665, 34675, 34853, 40965):
        yield f"tiff, tag {tag}", tiff((tag, 7, MUCH_OF_A_FILE - 64, 16))
        yield f"tiff, longs of {tag}", tiff((tag, 4, (MUCH_OF_A_FILE - 64) // 4, 16))
    yield "tiff, known", tiff(*((tag, 7, MUCH_OF_A_FILE - 64, 16) for tag in known))
    yield "tiff, the same", tiff(*((700, 7, MUCH_OF_A_FILE - 64, 16) for _ in range(60_000)))
    yield "tiff, tiles", tiff((322, 4, 1, 60_000), (323, 4, 1, 60_000), (324, 4, 1, 16), (325, 4, 1, 64))
    loop = [(tag, 4, 1, MUCH_OF_A_FILE) for tag in (34665, 34853, 40965)]
    yield "tiff, directories in a circle", tiff(*loop)
    yield (
        "tiff, many rows",
        tiff()[:-4].replace(struct.pack("<HHII", 257, 4, 1, 8), struct.pack("<HHII", 257, 4, 1, 65_535)),
    )


def heifs() -> Iterator[tuple[str, bytes]]:
    for kind in ("AVIF", "HEIF"):
        if kind == "HEIF":
            pytest.importorskip("pillow_heif").register_heif_opener()
        plain = saved(kind)
        meta = plain.index(b"meta") - 4
        length = int.from_bytes(plain[meta : meta + 4], "big")
        names = (
            "ispe pixi colr irot imir clap hvcC av1C iinf infe iloc iref ipma iprp ipco idat free meta mdat Exif uuid"
        )
        for name in map(str.encode, names.split()):
            box = struct.pack(">I4s", 40, name) + bytes(4) + struct.pack(">II", 8, 8) + bytes(20)
            many = box * (MUCH_OF_A_FILE // 40)
            inside = struct.pack(">I", length + len(many)) + plain[meta + 4 : meta + length] + many
            yield f"{kind}, {name.decode()} within", plain[:meta] + inside + plain[meta + length :]
            yield f"{kind}, {name.decode()} before", plain[:meta] + many + plain[meta:]
        for name in (b"iprp", b"meta"):
            deep = b""
            for _ in range(3_000):
                deep = struct.pack(">I4s4x", len(deep) + 12, name) + deep
            yield f"{kind}, {name.decode()} in one another", plain[:meta] + deep + plain[meta:]


def bmps() -> Iterator[tuple[str, bytes]]:
    for bits, way in ((8, 1), (4, 2)):
        head = struct.pack("<IiiHHIIiiII", 40, 2_000, 2_000, 1, bits, way, 0, 0, 0, 2**bits, 0)
        start = b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + 4 * 2**bits) + head + bytes(4 * 2**bits)
        for name, run in {"points": b"\1\5", "ends": b"\0\0", "steps": b"\0\2\0\0", "rows": b"\0\3\0a\0\0"}.items():
            yield f"bmp, {name} of {bits} bits", start + run * (MUCH_OF_A_FILE // len(run))
    yield (
        "bmp, colours",
        b"BM"
        + struct.pack("<IHHIIiiHHIIiiII", 0, 0, 0, MUCH_OF_A_FILE, 40, 8, 8, 1, 8, 0, 0, 0, 0, 2**20, 0)
        + bytes(MUCH_OF_A_FILE),
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("files", [gifs, tiffs, heifs, bmps])
def test_what_is_decoded_apart_ends_within_its_limits_and_the_next_is_read(
    files: Callable[[], Iterator[tuple[str, bytes]]],
) -> None:
    for name, data in files():
        before = time.process_time()
        try:
            price = identify(data)
        except NonnegError:
            continue
        finally:
            assert time.process_time() - before < 0.5, name
        process = of_this_thread()
        used, held = taken(process.process.pid)
        with suppress(NonnegError):
            assert min(decode(data).size) > 0
        if process.alive:
            seconds, peak = taken(process.process.pid)
            assert seconds - used < MAX_SECONDS + 0.5, name
            assert peak < max(held, RESIDENT) + price.bytes + len(data) + ROOM, name
    assert decode(saved("TIFF")).size == (8, 8)


RESIDENT = 2**27  # bytes of a process that has decoded nothing yet


def taken(process: int) -> tuple[float, int]:
    """Seconds of a core that a process has used, and its peak in bytes."""
    place = Path(f"/proc/{process}")
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    peak = next(line for line in (place / "status").read_text().splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(peak.split()[1]) * 1024


def test_profiles_count_as_texts_do() -> None:
    profile = chunk(b"iCCP", b"a\0\0" + MUCH)
    head, tail = saved("PNG")[:33], saved("PNG")[33:]
    assert decode(head + profile * 10 + tail).size == (8, 8)
    with pytest.raises(ImageTooLarge, match="profiles") as refused:
        identify(head + profile * 60 + tail)
    assert (refused.value.field, refused.value.status) == ("text", 413)
