"""The process that `DecoderProcess` starts and watches: files in, the pixels that an encoder sees out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

from nonneg_core.errors import NonnegError
from nonneg_core.pixels.identify import can_heif
from nonneg_core.pixels.view import View
from nonneg_runtime.seeing.decoder_process import HEAD, SIZE
from nonneg_runtime.seeing.preprocess import Preprocessor


def main() -> None:
    """Decode one image after the other, until the last: the process that is watched."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which still answers
    orders, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    one_thread()
    with os.fdopen(answers, "wb") as answering:
        _answer(answering, False, b"")
        while len(head := orders.read(HEAD.size)) == HEAD.size:
            order_size, size = HEAD.unpack(head)
            order, image = json.loads(orders.read(order_size)), orders.read(size)
            limit_memory(order["room"])
            try:
                _answer(answering, False, _seen(image, order["settings"]))
            except NonnegError as error:
                _answer(answering, True, json.dumps(error.body()).encode())


def one_thread() -> None:
    """Have the decoders use one core, and make nothing but the picture."""
    with contextlib.suppress(ImportError):
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    if can_heif():
        options: Any = sys.modules["pi_heif.options" if "pi_heif.options" in sys.modules else "pillow_heif.options"]
        options.DECODE_THREADS = 1
        options.THUMBNAILS = options.DEPTH_IMAGES = options.AUX_IMAGES = False


def limit_memory(room: int) -> None:
    """Let the address space grow by so much."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        usage = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (usage + room, hard))


def _seen(image: bytes, settings: dict[str, Any]) -> bytes:
    view = View.model_validate(settings.pop("view"))
    pixels, size = Preprocessor(view, **settings).view_with_size(image)
    return SIZE.pack(*size) + pixels.tobytes()


def _answer(file: IO[bytes], failed: bool, data: bytes) -> None:
    file.write(HEAD.pack(failed, len(data)) + data)
    file.flush()


if __name__ == "__main__":
    main()
