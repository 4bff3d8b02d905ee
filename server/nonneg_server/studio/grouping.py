"""The groups of an indexed folder: sought once, on a thread that the process does not wait for when it ends."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from nonneg_server.studio.collection import FindGroups

Sections = list[dict[str, Any]]


class Grouping:
    """One search for groups, begun when it is first asked for; after a failure the next request begins again."""

    def __init__(self, find: FindGroups) -> None:
        self._find = find
        self._asking = threading.Lock()
        self._sought: Future[Sections] | None = None
        self._done, self._of = 0, 0

    def sections(self) -> dict[str, Any]:
        """Return how far the search is, begun if it was not; and when it is done, what it found, or raise its error."""
        with self._asking:
            if self._sought is None:
                self._done = self._of = 0
                self._sought = self._begin()
            sought, done = self._sought, self._sought.done()
            if done and sought.exception() is not None:
                self._sought = None  # who asks now is told, who asks next begins again
        return {"found": done, "done": self._done, "of": self._of, "sections": sought.result() if done else []}

    def progress(self) -> dict[str, Any]:
        """Return how far the present step of the search is."""
        sought = self._sought
        return {"found": sought is not None and sought.done(), "done": self._done, "of": self._of}

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
