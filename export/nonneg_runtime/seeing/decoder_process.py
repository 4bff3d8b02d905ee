"""AVIF, HEIC and large WebP, seen in a process of its own that is ended when it takes too long or too much.

What the first two take cannot be read from outside: a picture may refer to others many times over, or decode to another
size than is announced. Every thread that meets such an image starts one process and keeps it; it gets a file and gives
back the few pixels that the encoder sees. One that uses more processor time or memory than an image may is killed, and
the image refused. A fault in a decoder ends that process and not the server. WebP's decoder is one that keeps the
interpreter, and with it every other thread, while it copies a picture.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np

from nonneg_core.errors import BY_TYPE, ImageTooLarge, ImageUnreadable, NonnegError, NotReady
from nonneg_core.pixels.pricing.price import MAX_SECONDS, Price
from nonneg_core.pixels.view import Pixels
from nonneg_core.process.python_child import start_python

WORKER = "nonneg_runtime.seeing.decoder_worker"
UNBOUNDED = ("AVIF", "HEIF")
LARGE_WEBP = 4_000_000  # pixels
LONGEST = 30.0  # seconds that an image may take, however little of them it had a processor
ROOM = 96 * 2**20  # bytes of address space beside an image's price: buffers of the allocator, stacks
HEAD = struct.Struct(">II")
SIZE = struct.Struct(">II")  # of the decoded picture, before its pixels
LOOK = 0.05  # seconds
_own = threading.local()


def belongs_apart(price: Price) -> bool:
    """Return whether an image that anyone may have sent is decoded in a process of its own."""
    return price.format in UNBOUNDED or (price.format == "WEBP" and price.pixels > LARGE_WEBP)


def seen_in_process(image: bytes, price: Price, settings: dict[str, Any], size: int) -> tuple[Pixels, tuple[int, int]]:
    """Return what a view sees of the image, and the image's own size, by the process that belongs to this thread."""
    answer = of_this_thread().ask(image, price, settings)
    pixels = np.frombuffer(answer, np.uint8, offset=SIZE.size).reshape(size, size, 3)
    return pixels, SIZE.unpack_from(answer)


def of_this_thread() -> DecoderProcess:
    """Return the process that decodes for this thread; a new one where there is none, or it has ended."""
    decoder: DecoderProcess | None = getattr(_own, "process", None)
    if decoder is None or not decoder.alive:
        decoder = _own.process = DecoderProcess()
    return decoder


class DecoderProcess:
    """The asking side: it starts the process, sends it images and ends it."""

    def __init__(self, *, seconds: float = MAX_SECONDS, look: float = LOOK) -> None:
        """Start the process; an image may take `seconds` of processor time, which is looked at every `look` seconds."""
        self._most, self._look = seconds, look
        self._used: float | None = None  # when it was asked last
        try:
            self.process = start_python(
                WORKER,
                env={"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        except OSError as error:
            raise _not_started() from error
        self._end = weakref.finalize(self, _kill, self.process)
        try:
            self._receive(time.monotonic() + LONGEST)  # it is there, and has imported what it needs
        except (OSError, EOFError, ImageTooLarge) as error:
            self._end()
            raise _not_started() from error

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, image: bytes, price: Price, settings: dict[str, Any]) -> bytes:
        """Return size and pixels; or the typed error, also where the process died or had to be killed."""
        assert self.process.stdin is not None
        order = json.dumps({"settings": settings, "room": price.bytes + ROOM}).encode()
        self._used = self._seconds()
        try:
            for part in (HEAD.pack(len(order), len(image)), order, image):
                _write(self.process.stdin, part)
            failed, answer = self._receive(time.monotonic() + LONGEST)
        except (OSError, EOFError) as error:
            self._end()
            raise ImageUnreadable(
                f"a {price.format} of {len(image)} bytes that ends its decoder",
                fix="save it again, or send a JPEG",
            ) from error
        if failed:
            raise _error_of(json.loads(answer))
        return answer

    def _receive(self, until: float) -> tuple[bool, bytes]:
        """Return whether it failed, and what it says."""
        head = self._read(HEAD.size, until)
        failed, size = HEAD.unpack(head)
        return bool(failed), self._read(size, until)

    def _read(self, size: int, until: float) -> bytes:
        assert self.process.stdout is not None
        buffer = bytearray()
        while len(buffer) < size:
            while not select.select([self.process.stdout], [], [], self._look)[0]:
                self._check(until)
            piece = os.read(self.process.stdout.fileno(), size - len(buffer))
            if not piece:
                raise EOFError
            buffer += piece
        return bytes(buffer)

    def _check(self, until: float) -> None:
        """Kill it if it has used more than its time."""
        used = 0.0 if self._used is None else self._seconds() - self._used
        if used <= self._most and time.monotonic() < until:
            return
        self._end()
        raise ImageTooLarge(
            f"decoding this image takes more than the limit of {self._most:g} s of a core",
            fix="scale it down, or save it as a JPEG",
            field="seconds",
            limit=self._most,
        )

    def _seconds(self) -> float:
        """Return processor time that it has used so far; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _not_started() -> NotReady:
    return NotReady(
        "the process that decodes AVIF, HEIC and large WebP does not start",
        fix="see whether memory and processes are left, or send a JPEG",
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def _write(file: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file.fileno(), rest) :]


def _error_of(failure: dict[str, Any]) -> NonnegError:
    kind = BY_TYPE.get(failure.pop("type"), NonnegError)
    return kind(failure.pop("message"), **failure)
