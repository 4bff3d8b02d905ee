"""AVIF and HEIC in a process of their own: the same pixels, and an end to whatever takes too much."""

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
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.view import View
from nonneg_runtime.seeing import decoder_process
from nonneg_runtime.seeing.decoder_process import UNBOUNDED, DecoderProcess, of_this_thread
from nonneg_runtime.seeing.preprocess import Preprocessor

pytestmark = pytest.mark.slow
PHOTO = Path(skimage.__file__).parent / "data" / "chelsea.png"
VIEW = View(size=64)
SETTINGS = {"view": VIEW.model_dump(), "max_pixels": 10**8, "decode": "exact"}


def saved(kind: str, size: tuple[int, int] = (150, 100)) -> bytes:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    buffer = io.BytesIO()
    with Image.open(PHOTO) as photo:
        photo.convert("RGB").resize(size).save(buffer, kind, quality=90)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_the_pixels_are_those_of_this_process(kind: str) -> None:
    data = saved(kind)
    apart, here = Preprocessor(VIEW, decode="exact", apart=True), Preprocessor(VIEW, decode="exact")
    np.testing.assert_array_equal(apart.pixels(data), here.pixels(data))


@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.nightly) for kind in UNBOUNDED[1:]), UNBOUNDED[0], "WEBP"]
)
def test_a_large_one_fits_the_memory_that_it_is_given(kind: str) -> None:
    data = saved(kind, (3000, 2000))
    assert Preprocessor(VIEW, apart=True).pixels(data).shape == (64, 64, 3)


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_an_error_is_the_one_of_this_process(kind: str) -> None:
    data = saved(kind)[:-2000]
    messages = []
    for apart in (True, False):
        with pytest.raises(ImageUnreadable) as refused:
            Preprocessor(VIEW, apart=apart).pixels(data)
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
        Preprocessor(VIEW, apart=True).pixels(small)
    assert Preprocessor(VIEW, apart=True).pixels(saved("AVIF")).shape == (64, 64, 3)  # others go on


def test_one_that_takes_too_long_is_ended_and_the_next_is_served() -> None:
    process, data = DecoderProcess(seconds=0.0, look=0.001), saved("AVIF", (3000, 2000))
    with pytest.raises(ImageTooLarge) as refused:
        process.ask(data, identify(data), SETTINGS)
    assert refused.value.field == "seconds"
    assert not process.alive
    assert Preprocessor(VIEW, apart=True).pixels(data).shape == (64, 64, 3)


def test_a_process_that_dies_costs_one_image() -> None:
    process, data = DecoderProcess(), saved("AVIF")
    process.ask(data, identify(data), SETTINGS)
    os.kill(process.process.pid, signal.SIGKILL)
    while process.alive:
        time.sleep(0.001)
    with pytest.raises(ImageUnreadable):
        process.ask(data, identify(data), SETTINGS)
    assert Preprocessor(VIEW, apart=True).pixels(data).shape == (64, 64, 3)


@pytest.mark.parametrize("missing", ["the module", "Python"])
def test_a_process_that_does_not_start_is_not_ready(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_process, "_own", threading.local())
    with monkeypatch.context() as patched:
        if missing == "Python":
            patched.setattr(sys, "executable", "/nowhere/python")
        else:
            patched.setattr(decoder_process, "WORKER", "nonneg_runtime.nowhere")
        with pytest.raises(NotReady, match="does not start"):
            Preprocessor(VIEW, apart=True).pixels(saved("AVIF"))
    assert Preprocessor(VIEW, apart=True).pixels(saved("AVIF")).shape == (64, 64, 3)  # others go on


def test_the_process_ends_with_the_thread_that_it_served() -> None:
    found = []

    def see() -> None:
        Preprocessor(VIEW, apart=True).pixels(saved("AVIF"))
        found.append(of_this_thread().process)

    thread = threading.Thread(target=see)
    thread.start()
    thread.join()
    assert found[0].wait(30) is not None
