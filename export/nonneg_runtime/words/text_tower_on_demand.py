"""A served bundle's text tower: opened and tested when it is needed, forgotten when memory is short."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nonneg_runtime.bundle import Bundle
from nonneg_runtime.words.text_tower import TextTower


class RestingTextTower:
    """`tower` is there while it is loaded; a bundle that changed since it was first opened is refused."""

    def __init__(self, bundle: Bundle) -> None:
        self.tower: TextTower | None = None
        self._bundle = bundle
        self._opened_before = False
        self._opening = threading.Lock()

    @property
    def weight(self) -> int:
        """Bytes of weights that it holds while it is loaded."""
        record = self._bundle.manifest.text
        return 0 if record is None or self.tower is None else self._bundle.manifest.files[record.file].bytes

    def rest(self) -> None:
        """Forget the weights; the next text loads them again."""
        self.tower = None

    def opened(self, check_unchanged: Callable[[], None]) -> tuple[TextTower | None, bool]:
        """Return the tower, None where the bundle has none; and whether it was opened only now."""
        record, tower = self._bundle.manifest.text, self.tower
        if record is None or tower is not None:
            return tower, False
        with self._opening:
            if self.tower is not None:
                return self.tower, False
            if self._opened_before:
                check_unchanged()
            tower = self.tower = TextTower(self._bundle.path, record)
            self._opened_before = True
        return tower, True
