"""The process that `DecoderProcess` starts and watches: files in, pixels out."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from PIL import Image

from nonneg_core.errors import NonnegError
from nonneg_core.pixels.decode import STRIP, decoded_here
from nonneg_core.pixels.decoder_process import HEAD, SIZES, Order
from nonneg_core.pixels.identify import can_heif
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.view import View, fast_resize, resize_pillow


def main() -> None:
    """Decode one image after the other, until the last: the process that is watched."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which still answers
    orders, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    with os.fdopen(answers, "wb") as answering:
        _answer(answering, b"")
        while len(head := orders.read(HEAD.size)) == HEAD.size:
            size, image_size = HEAD.unpack(head)
            price, order, room = json.loads(orders.read(size))
            image = orders.read(image_size)
            try:
                sizes, pieces = _decoded(image, Price(*price), Order(*order), room)
                _answer(answering, sizes, pieces)
            except NonnegError as error:
                _answer(answering, json.dumps(error.body()).encode(), failed=True)


def one_thread(kind: str) -> None:
    """Have the decoder of this format use one core, and make nothing but the picture."""
    if kind == "AVIF":
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    elif kind == "HEIF" and can_heif():
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


def _decoded(image: bytes, price: Price, order: Order, room: int) -> tuple[bytes, Iterable[bytes]]:
    """Return the sizes of what was ordered, and its pixels in pieces."""
    one_thread(price.format)
    limit_memory(room)
    picture = decoded_here(image, price, background=order.background, at_least=order.at_least)
    if order.view is None:
        return SIZES.pack(*picture.size, *picture.size), _strips(picture)
    pixels = View.model_validate(order.view).apply(picture, resize_pillow if order.exact else fast_resize())
    return SIZES.pack(pixels.shape[1], pixels.shape[0], *picture.size), [pixels.tobytes()]


def _strips(picture: Image.Image) -> Iterator[bytes]:
    """Yield its pixels from the top, a part at a time: memory is bounded."""
    rows = max(1, STRIP // picture.width)
    for top in range(0, picture.height, rows):
        yield picture.crop((0, top, picture.width, min(top + rows, picture.height))).tobytes()


def _answer(file: IO[bytes], head: bytes, pieces: Iterable[bytes] = (), *, failed: bool = False) -> None:
    """Write how many bytes follow, then these: `head`, and as many pieces as it announces pixels."""
    across, down, *_ = SIZES.unpack(head) if pieces else (0, 0)
    file.write(HEAD.pack(failed, len(head) + 3 * across * down) + head)
    for piece in pieces:
        file.write(piece)
    file.flush()


if __name__ == "__main__":
    main()
