"""Vectors of images seen before, by content: bounded in bytes, the least recently used forgotten first.

In memory, on disk, or both: then what memory does not know is looked for on disk.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats

if TYPE_CHECKING:
    from nonneg_server.engine.disk_cache import DiskCache

OVERHEAD = 400  # bytes that an entry costs beside its numbers

CachedVector = tuple[NDArray[np.int32], Floats, int]  # indices, values, D


class Cache:
    """Raw vectors, kept sparse; used on the event loop only."""

    def __init__(self, max_bytes: int, disk: "DiskCache | None" = None) -> None:
        self.max_bytes = max_bytes
        self.disk = disk
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[bytes, CachedVector] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    async def get_all(self, keys: Sequence[bytes | None]) -> list[Floats | None]:
        """Return the vectors that are known, each in its key's place."""
        vectors = [None if key is None else self.get(key) for key in keys]
        missing = [key for key, vector in zip(keys, vectors, strict=True) if key is not None and vector is None]
        if self.disk is None or not missing:
            return vectors
        on_disk = await self.disk.find(missing)
        for i, key in enumerate(keys):
            if key in on_disk and vectors[i] is None:
                vectors[i] = on_disk[key]
                self._keep(key, on_disk[key])
                self.hits, self.misses = self.hits + 1, self.misses - 1
        return vectors

    def get(self, key: bytes) -> Floats | None:
        """Return the vector under this key, as it was put there."""
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

    def put(self, key: bytes, vector: Floats) -> None:
        if self.disk is not None:
            self.disk.put(key, vector)
        self._keep(key, vector)

    def close(self) -> None:
        if self.disk is not None:
            self.disk.close()

    def _keep(self, key: bytes, vector: Floats) -> None:
        indices = np.flatnonzero(vector).astype(np.int32)
        entry = (indices, vector[indices], len(vector))
        old = self._entries.pop(key, None)
        self.bytes += _size(entry) - (_size(old) if old else 0)
        self._entries[key] = entry
        while self.bytes > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.bytes -= _size(oldest)


def key_of(fingerprint: str, image: bytes, way: str = "") -> bytes:
    """Name an image under a model and a way to compute: another of them, or one changed bit, is another key."""
    return hashlib.blake2b(image, digest_size=20, key=fingerprint.encode()[:64], person=way.encode()[:16]).digest()


def _size(entry: CachedVector) -> int:
    return entry[0].nbytes + entry[1].nbytes + OVERHEAD
