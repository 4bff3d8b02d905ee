"""The process's lanes: its worker threads and the gate before them, shared by every model it serves."""

from __future__ import annotations

import asyncio

from nonneg_core.cores import granted
from nonneg_server.engine.admission import Admission
from nonneg_server.engine.completions import Strip
from nonneg_server.engine.pool import Pool

MAX_IMAGES = 512
MAX_BYTES = 256 * 2**20


class Lanes:
    """As many threads as cores; what is in flight is bounded by count and by bytes."""

    def __init__(self, threads: int | None = None, *, max_images: int = MAX_IMAGES, max_bytes: int = MAX_BYTES) -> None:
        self.threads = threads or granted()
        self.pool = Pool(self.threads)
        self.admission = Admission(max_images=max_images, max_bytes=max_bytes, lanes=self.threads)
        self._strip: Strip | None = None

    def strip(self) -> Strip:
        """Where results come down for the running event loop."""
        loop = asyncio.get_running_loop()
        if self._strip is None or self._strip.loop is not loop:
            self._strip = Strip(loop, self.pool)
        return self._strip

    def close(self) -> None:
        self.pool.close()
