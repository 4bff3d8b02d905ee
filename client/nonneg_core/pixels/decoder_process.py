"""Images whose headers do not bound them, decoded in a process that is ended when it takes too much.

Those are all but JPEG and PNG, and WebP that is not large: one picture may refer to others many times over, or decode
to another size than is announced. Every thread that meets such an image starts one process and keeps it; it gets a file
and gives back pixels. One that uses more processor time or memory than an image may is killed, and the image refused. A
fault in a decoder ends that process and no other. WebP's decoder is one that keeps the interpreter, and with it every
other thread, while it copies a picture.
"""

import contextlib
import json
import os
import struct
import subprocess
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nonneg_core.errors import BY_TYPE, ImageTooLarge, ImageUnreadable, NonnegError, NotReady
from nonneg_core.pixels.pricing.price import MAX_SECONDS, Price
from nonneg_core.pixels.view import Pixels
from nonneg_core.process.python_child import start_python

WORKER = "nonneg_core.pixels.decoder_worker"
BOUNDED = ("JPEG", "PNG", "WEBP")  # by their headers
LARGE_WEBP = 4_000_000  # pixels
LONGEST = 30.0  # seconds that an image may take, however little of them it had a processor
ROOM = 96 * 2**20  # bytes of address space beside an image's price: buffers of the allocator, stacks
HEAD = struct.Struct(">IQ")  # whether it failed, or the size of what is asked; and the size of what follows
SIZES = struct.Struct(">4I")  # width and height of the pixels, and of the picture that they are a view of
LOOK = 0.05  # seconds
PIPE = 2**20  # bytes
_own = threading.local()


class Order(NamedTuple):
    """What to make of an image: what its view shows, or without one the whole picture, upright."""

    background: tuple[int, int, int]
    at_least: int | None = None
    view: dict[str, Any] | None = None
    exact: bool = True


class Decoded(NamedTuple):
    """Pixels, uint8 (height, width, 3), and width and height of the whole picture."""

    pixels: Pixels
    size: tuple[int, int]


def belongs_apart(price: Price) -> bool:
    """Return whether an image is decoded in a process of its own."""
    return price.format not in BOUNDED or (price.format == "WEBP" and price.pixels > LARGE_WEBP)


def decoded_apart(image: bytes, price: Price, order: Order) -> Decoded:
    """Return what was ordered, by the process that belongs to this thread."""
    return of_this_thread().ask(image, price, order)


def of_this_thread() -> "DecoderProcess":
    """Return the process that decodes for this thread; a new one where there is none, or it has ended."""
    decoder: DecoderProcess | None = getattr(_own, "process", None)
    if decoder is None or not decoder.alive:
        decoder = _own.process = DecoderProcess()
    return decoder


class DecoderProcess:
    """The asking side: it starts the process, sends it images and ends it."""

    def __init__(self, *, seconds: float = MAX_SECONDS, longest: float = LONGEST, look: float = LOOK) -> None:
        """Start it; an image may take `seconds` of a core, and `longest` in all: looked at every `look` seconds."""
        self._seconds, self._longest, self._look = seconds, longest, look
        self._owner = os.getpid()
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
        widen(self.process)
        self._end = weakref.finalize(self, _kill, self.process, self._owner)
        try:
            with self._watched(seconds=LONGEST, longest=LONGEST):
                self._receive()  # it has imported what it needs
        except (OSError, EOFError, ImageTooLarge) as error:
            self._end()
            raise _not_started() from error

    @property
    def alive(self) -> bool:
        """Return whether it can be asked: a fork of the process that started it can not."""
        return self._owner == os.getpid() and self.process.poll() is None

    def ask(self, image: bytes, price: Price, order: Order) -> Decoded:
        """Return what was ordered; or the typed error, also where the process died or had to be killed."""
        what = json.dumps([price, order, price.bytes + ROOM]).encode()
        try:
            with self._watched(seconds=self._seconds, longest=self._longest):
                for part in (HEAD.pack(len(what), len(image)), what, image):
                    self._send(part)
                failed, answer = self._receive()
        except ImageTooLarge:
            self._end()
            raise
        except (OSError, EOFError) as error:
            self._end()
            raise ImageUnreadable(
                f"a {price.format} of {len(image)} bytes that ends its decoder",
                fix="save it again, or send a JPEG",
            ) from error
        if failed:
            raise _error_of(json.loads(answer))
        across, down, width, height = SIZES.unpack_from(answer)
        return Decoded(np.frombuffer(answer, np.uint8, offset=SIZES.size).reshape(down, across, 3), (width, height))

    @contextlib.contextmanager
    def _watched(self, *, seconds: float, longest: float) -> Iterator[None]:
        """Kill the process where it takes longer: what waits for it then finds its pipes closed."""
        over: list[ImageTooLarge] = []
        done = threading.Event()
        used, until = self._used(), time.monotonic() + longest

        def watch() -> None:
            while not done.wait(self._look):
                if self._used() - used > seconds:
                    over.append(_too_long(f"{seconds:g} s of a core", seconds))
                elif time.monotonic() > until:
                    over.append(_too_long(f"{longest:g} s", longest))
                if over:
                    self.process.kill()
                    break

        watcher = threading.Thread(target=watch, name="decoder-watch", daemon=True)
        try:
            watcher.start()
        except RuntimeError as error:
            raise _not_started() from error
        try:
            yield
        except (OSError, EOFError):
            if over:
                raise over[0] from None
            raise
        finally:
            done.set()
            watcher.join()

    def _receive(self) -> tuple[bool, bytearray]:
        """Return whether it failed, and what it says."""
        failed, size = HEAD.unpack(self._read(HEAD.size))
        return bool(failed), self._read(size)

    def _read(self, size: int) -> bytearray:
        file: Any = self.process.stdout
        buffer, at = bytearray(size), 0
        with memoryview(buffer) as view:
            while at < size:
                if not (count := file.readinto(view[at:])):
                    raise EOFError
                at += count
        return buffer

    def _send(self, data: bytes) -> None:
        file: Any = self.process.stdin
        with memoryview(data) as rest:
            at = 0
            while at < len(rest):
                at += file.write(rest[at:])

    def _used(self) -> float:
        """Return processor time that it has used so far; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def widen(process: subprocess.Popen[bytes]) -> None:
    """Have its pipes hold so much at once that a picture of the usual size takes few turns, where the system can."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        for pipe in (process.stdin, process.stdout):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)  # type: ignore[arg-type]


def _too_long(limit: str, seconds: float) -> ImageTooLarge:
    return ImageTooLarge(
        f"decoding this image takes more than the limit of {limit}",
        fix="scale it down, or save it as a JPEG",
        field="seconds",
        limit=seconds,
    )


def _not_started() -> NotReady:
    return NotReady(
        "the process that decodes what is not a JPEG or PNG does not start",
        fix="see whether memory and processes are left, or send a JPEG",
    )


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    """End it; a fork of the process that started it closes its own ends of the pipes alone."""
    if owner == os.getpid():
        process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if owner == os.getpid():
        process.wait()


def _error_of(failure: dict[str, Any]) -> NonnegError:
    kind = BY_TYPE.get(failure.pop("type"), NonnegError)
    return kind(failure.pop("message"), **failure)
