"""Broken images: counted, named, passed over for the next that can be read - up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PIL import Image

from nonneg_core.errors import DataInvalid, NonnegError


class Tolerance:
    """What of one data set was found broken so far, and why."""

    def __init__(self, data: str, most: int) -> None:
        self.data, self.most = data, most
        self.broken: dict[str, str] = {}

    def first(self, i: int, count: int, name: Callable[[int], str], read: Callable[[int], Image.Image]) -> Image.Image:
        """Return image i; in place of a broken one the next that can be read, always the same."""
        for step in range(count):
            j = (i + step) % count
            if name(j) in self.broken:
                continue
            try:
                return read(j)
            except (NonnegError, OSError) as error:
                self._count(name(j), getattr(error, "message", str(error)))
        raise DataInvalid(
            f"no image of {self.data} can be read: {self.report()}", fix="check the files", value=self.data
        )

    def add(self, broken: Mapping[str, str]) -> None:
        """Count what another process found broken in the same data set."""
        for name in broken.keys() - self.broken.keys():
            self._count(name, broken[name])

    def report(self, most: int = 5) -> str:
        """Return the first few by name, and how many more."""
        named = [f"{name} ({why})" for name, why in list(self.broken.items())[:most]]
        return "; ".join(named) + (f"; and {len(self.broken) - most} more" if len(self.broken) > most else "")

    def _count(self, name: str, why: str) -> None:
        self.broken[name] = why
        if len(self.broken) > self.most:
            raise DataInvalid(
                f"more than {self.most} broken images in {self.data}: {self.report()}",
                fix="mend or remove them, or raise data.max_broken",
                field="data.max_broken",
                value=len(self.broken),
                limit=self.most,
            )
