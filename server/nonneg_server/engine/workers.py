"""The process's workers: its threads and the bounds of the queue before them, shared by every model it serves."""

from __future__ import annotations

import asyncio

from nonneg_core.cores import available_cores
from nonneg_server.engine.admission import Admission
from nonneg_server.engine.completions import Completions
from nonneg_server.engine.fair_queue import BUDGET
from nonneg_server.engine.pool import WorkerPool

MAX_IMAGES = 512
MAX_BYTES = 256 * 2**20
STALL_SECONDS = 120.0


class Workers:
    """As many threads as cores; what is in flight is bounded by count, by bytes and by large images' price."""

    def __init__(
        self,
        threads: int | None = None,
        *,
        max_images: int = MAX_IMAGES,
        max_bytes: int = MAX_BYTES,
        memory: int = BUDGET,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self.threads = threads or available_cores()
        self.pool = WorkerPool(self.threads, stall_seconds=stall_seconds, memory=memory)
        self.admission = Admission(max_images=max_images, max_bytes=max_bytes, workers=self.threads)
        self._completions: Completions | None = None

    def completions(self) -> Completions:
        """Return where results come down for the running event loop."""
        loop = asyncio.get_running_loop()
        if self._completions is None or self._completions.loop is not loop:
            self._completions = Completions(loop, self.pool)
        return self._completions

    def close(self, timeout: float | None = None) -> None:
        self.pool.close(timeout)
