"""Vectors of images seen before, by content: bounded in bytes, the least recently used forgotten first."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

OVERHEAD = 400  # bytes that an entry costs beside its numbers

Entry = tuple[NDArray[np.int32], NDArray[np.float32], int]  # indices, values, D


class Cache:
    """Raw vectors, kept sparse; used on the event loop only."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        """The vector under this key, as it was put there."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        indices, values, dimensions = entry
        vector = np.zeros(dimensions, np.float32)
        vector[indices] = values
        return vector

    def put(self, key: bytes, vector: NDArray[np.float32]) -> None:
        indices = np.flatnonzero(vector).astype(np.int32)
        entry = (indices, vector[indices], len(vector))
        old = self._entries.pop(key, None)
        self.bytes += _size(entry) - (_size(old) if old else 0)
        self._entries[key] = entry
        while self.bytes > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.bytes -= _size(oldest)


def key_of(fingerprint: str, image: bytes) -> bytes:
    """Names an image under a model: another model, or one changed bit, is another key."""
    return hashlib.blake2b(image, digest_size=20, key=fingerprint.encode()[:64]).digest()


def _size(entry: Entry) -> int:
    return entry[0].nbytes + entry[1].nbytes + OVERHEAD
