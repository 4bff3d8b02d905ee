"""One run at a time writes a data set: a lock of the system here, a heartbeat in an object store.

Clocks are not compared: a second run reads the heartbeat, waits, and reads it again. One that has moved is alive.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nonneg_core.errors import NonnegError, StorageFailed
from nonneg_core.files.one_writer import one_writer
from nonneg_vectors.storage.addresses import Absent, Address

LOCK = "lock"
BEAT = 5.0  # seconds between two heartbeats
PATIENCE = 4  # heartbeats that a run may miss before another takes its place
SETTLED = 2.0  # seconds after which of two runs that began together one has been overwritten

LockCheck = Callable[[], None]


@contextmanager
def locked_target(target: Address, *, every: float = BEAT, settled: float = SETTLED) -> Iterator[LockCheck]:
    """Keep other runs out of a target; what is given raises when another has taken its place."""
    if not target.here:
        yield from _by_heartbeat(ObjectStoreLock(target / LOCK, target, every, settled))
        return
    with one_writer(Path(target.path)):
        yield lambda: None


def _by_heartbeat(heart: "ObjectStoreLock") -> Iterator[LockCheck]:
    heart.take()
    thread = threading.Thread(target=heart.beat, daemon=True)
    thread.start()
    try:
        yield heart.check
    finally:
        heart.stop(thread)


class ObjectStoreLock:
    """A file whose number grows as long as its run lives."""

    def __init__(self, place: Address, target: Address, every: float, settled: float) -> None:
        self._place, self._target = place, target
        self._every, self._settled = every, settled
        self._token = f"{uuid.uuid4()}@{os.uname().nodename if hasattr(os, 'uname') else 'windows'}"
        self._beats = 0
        self._missed = 0
        self._lost = False
        self._ended = threading.Event()

    def take(self) -> None:
        """Take the lock; raise while another run is alive."""
        previous = self._read()
        deadline = time.monotonic() + self._every * PATIENCE
        while previous is not None and time.monotonic() < deadline:
            time.sleep(self._every / 5)
            now = self._read()
            if now is None:
                break
            if now != previous:
                raise _another(self._target)
        self._write()
        time.sleep(self._settled)
        holder = self._read()
        if holder is None or holder["token"] != self._token:
            raise _another(self._target)

    def beat(self) -> None:
        """Count until it is stopped, or another run has written its own name."""
        while not self._ended.wait(self._every):
            try:
                holder = self._read()
                self._lost = self._lost or holder is None or holder["token"] != self._token
                if self._lost:
                    return
                self._write()
                self._missed = 0
            except NonnegError:
                self._missed += 1
                self._lost = self._missed >= PATIENCE - 1

    def check(self) -> None:
        """Raise when the lock is another's, or could not be renewed."""
        if self._lost:
            raise StorageFailed(
                f"the lock {self._place} is lost: another run took it, or it could not be renewed",
                fix="check rights and credentials, and give the same command again",
            )

    def stop(self, thread: threading.Thread) -> None:
        """End the thread that beats, and give the lock back."""
        self._ended.set()
        thread.join()
        if not self._lost:
            with suppress(NonnegError):
                self._place.remove()

    def _read(self) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = json.loads(self._place.read())
            return record
        except Absent:
            return None
        except ValueError as error:
            raise StorageFailed(f"{self._place} is damaged", fix="remove it, if no other run is alive") from error

    def _write(self) -> None:
        self._beats += 1
        self._place.write(json.dumps({"token": self._token, "beats": self._beats}).encode())


def _another(target: Address) -> StorageFailed:
    return StorageFailed(f"another nonneg is writing {target}", fix="wait for it, or stop it", value=str(target))
