"""The groups of an indexed folder: sought once, on a thread that the process does not wait for when it ends."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from nonneg_server.studio.collection import FindGroups

Sections = list[dict[str, Any]]


class Grouping:
    """One search for groups, shared by all requests that come while it runs; after a failure the next begins again."""

    def __init__(self, find: FindGroups) -> None:
        self._find = find
        self._sought: asyncio.Future[Sections] | None = None
        self._done, self._of = 0, 0

    async def sections(self) -> Sections:
        """Return duplicates, clusters and outliers."""
        if self._sought is None or (self._sought.done() and self._sought.exception()):
            self._done = self._of = 0
            self._sought = asyncio.wrap_future(self._begin())
        return await asyncio.shield(self._sought)

    def progress(self) -> dict[str, Any]:
        """Return how far the present step of the search is."""
        return {"found": self._sought is not None and self._sought.done(), "done": self._done, "of": self._of}

    def _begin(self) -> Future[Sections]:
        found: Future[Sections] = Future()

        def run() -> None:
            try:
                sections = self._find(self._tell)
            except BaseException as error:
                found.set_exception(error)
            else:
                found.set_result(sections)

        threading.Thread(target=run, name="groups", daemon=True).start()
        return found

    def _tell(self, done: int, of: int | None) -> None:
        self._done, self._of = done, of or 0
