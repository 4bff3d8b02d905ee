"""All but JPEG, PNG and small WebP in a process of their own: the same pixels, and an end to what takes too much."""

from __future__ import annotations

import io
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import skimage
from PIL import Image

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, NotReady
from nonneg_core.pixels import decoder_process
from nonneg_core.pixels.decode import decode, decoded_here
from nonneg_core.pixels.decoder_process import BOUNDED, LARGE_WEBP, DecoderProcess, Order, of_this_thread
from nonneg_core.pixels.formats import FORMATS
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.view import View
from nonneg_runtime.seeing.preprocess import Preprocessor

pytestmark = pytest.mark.slow
PHOTO = Path(skimage.__file__).parent / "data" / "chelsea.png"
VIEW = View(size=64)
ORDER = Order(VIEW.background, view=VIEW.model_dump())
APART = [kind for kind in FORMATS if kind not in BOUNDED]


def saved(kind: str, size: tuple[int, int] = (150, 100)) -> bytes:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    buffer = io.BytesIO()
    with Image.open(PHOTO) as photo:
        photo.convert("RGB").resize(size).save(buffer, kind, quality=90)
    return buffer.getvalue()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", APART)
def test_the_pixels_are_those_of_this_process(kind: str, exact: bool) -> None:
    data = saved(kind)
    price, here = identify(data), Preprocessor(VIEW, decode="exact" if exact else "fast")
    picture = decoded_here(data, price)
    np.testing.assert_array_equal(np.asarray(decode(data)), np.asarray(picture))
    seen = here.view_with_size(data)
    assert seen.size == picture.size == (150, 100)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    np.testing.assert_array_equal(seen.pixels, here.pixels(buffer.getvalue()))
    shown = []
    np.testing.assert_array_equal(here.pixels(data, inspect=shown.append), seen.pixels)
    assert [image.size for image in shown] == [(150, 100)]


@pytest.mark.parametrize(
    "kind", [pytest.param("HEIF", marks=pytest.mark.nightly), *(kind for kind in (*APART, "WEBP") if kind != "HEIF")]
)
def test_a_large_one_fits_the_memory_that_it_is_given(kind: str) -> None:
    data = saved(kind, (3000, 2000))
    assert LARGE_WEBP < 3000 * 2000
    assert decode(data).size == (3000, 2000)
    assert Preprocessor(VIEW).pixels(data).shape == (64, 64, 3)


@pytest.mark.parametrize("kind", APART)
def test_an_error_is_the_one_of_this_process(kind: str) -> None:
    data = saved(kind)[:-2000]
    messages = []
    for seen in (decode, lambda data: decoded_here(data, identify(data))):
        with pytest.raises(ImageUnreadable) as refused:
            seen(data)
        messages.append(refused.value.body())
    assert messages[0] == messages[1]


def test_one_that_decodes_to_more_than_it_announces_finds_no_memory_for_it() -> None:
    """A picture of 96 megapixels whose container says 64 x 64."""
    buffer = io.BytesIO()
    Image.new("RGB", (12_000, 8000), (10, 200, 30)).save(buffer, "AVIF", speed=10)
    data = buffer.getvalue()
    at = data.index(b"ispe") + 8
    small = data[:at] + struct.pack(">II", 64, 64) + data[at + 8 :]
    with pytest.raises((ImageUnreadable, ImageTooLarge)):
        Preprocessor(VIEW).pixels(small)
    assert Preprocessor(VIEW).pixels(saved("AVIF")).shape == (64, 64, 3)  # others go on


def test_one_that_takes_too_long_is_ended_and_the_next_is_served() -> None:
    process, data = DecoderProcess(seconds=0.0, look=0.001), saved("AVIF", (3000, 2000))
    with pytest.raises(ImageTooLarge) as refused:
        process.ask(data, identify(data), ORDER)
    assert refused.value.field == "seconds"
    assert not process.alive
    assert Preprocessor(VIEW).pixels(data).shape == (64, 64, 3)


def test_one_that_stands_still_is_ended_and_the_limit_is_named() -> None:
    """Neither reads nor computes: the file is larger than the pipe holds."""
    process, data = DecoderProcess(longest=0.2, look=0.01), saved("BMP", (3000, 2000))
    os.kill(process.process.pid, signal.SIGSTOP)
    with pytest.raises(ImageTooLarge, match="limit of 0") as refused:
        process.ask(data, identify(data), ORDER)
    assert (refused.value.field, refused.value.limit) == ("seconds", 0.2)
    assert not process.alive


def test_memory_beyond_the_price_is_refused_by_name() -> None:
    data = saved("BMP", (6000, 5000))
    price = identify(data)._replace(bytes=1)  # with what is free beside it, less than the picture takes
    with pytest.raises(ImageTooLarge, match="1 bytes that its size allows") as refused:
        DecoderProcess().ask(data, price, ORDER)
    assert (refused.value.field, refused.value.limit) == ("memory", 1)


def test_a_fork_starts_a_process_of_its_own_and_leaves_the_other() -> None:
    data = saved("TIFF")
    assert decode(data).size == (150, 100)
    mine = of_this_thread().process
    child = os.fork()
    if not child:
        os._exit(0 if decode(data).size == (150, 100) and of_this_thread().process.pid != mine.pid else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert of_this_thread().process is mine
    assert decode(data).size == (150, 100)


def test_a_process_that_dies_costs_one_image() -> None:
    process, data = DecoderProcess(), saved("AVIF")
    process.ask(data, identify(data), ORDER)
    os.kill(process.process.pid, signal.SIGKILL)
    while process.alive:
        time.sleep(0.001)
    with pytest.raises(ImageUnreadable):
        process.ask(data, identify(data), ORDER)
    assert Preprocessor(VIEW).pixels(data).shape == (64, 64, 3)


@pytest.mark.parametrize("missing", ["the module", "Python"])
def test_a_process_that_does_not_start_is_not_ready(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_process, "_own", threading.local())
    with monkeypatch.context() as patched:
        if missing == "Python":
            patched.setattr(sys, "executable", "/nowhere/python")
        else:
            patched.setattr(decoder_process, "WORKER", "nonneg_runtime.nowhere")
        with pytest.raises(NotReady, match="does not start"):
            Preprocessor(VIEW).pixels(saved("AVIF"))
    assert Preprocessor(VIEW).pixels(saved("AVIF")).shape == (64, 64, 3)  # others go on


def test_the_process_ends_with_the_thread_that_it_served() -> None:
    found = []

    def see() -> None:
        Preprocessor(VIEW).pixels(saved("AVIF"))
        found.append(of_this_thread().process)

    thread = threading.Thread(target=see)
    thread.start()
    thread.join()
    assert found[0].wait(30) is not None
