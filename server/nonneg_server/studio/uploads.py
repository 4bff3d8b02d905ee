"""Photos that were dropped on the page: their vectors and a small picture, in memory alone, the last few of them."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from nonneg_core.errors import NotFound
from nonneg_core.shortening import Vectors

MOST = 64
PREFIX = "drop-"


@dataclass(frozen=True, eq=False)
class Upload:
    """A photo that is not indexed: the encoder's own vector, and its picture."""

    vector: Vectors  # (D,)
    fingerprint: str
    picture: bytes  # JPEG, as large as a screen shows it


class Uploads:
    """The last few, by an id that cannot be guessed."""

    def __init__(self, most: int = MOST) -> None:
        self._held: OrderedDict[str, Upload] = OrderedDict()
        self._most = most

    def add(self, upload: Upload) -> str:
        """Keep it in the place of the oldest one."""
        name = PREFIX + secrets.token_hex(12)
        self._held[name] = upload
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return name

    def of_model(self, name: str, fingerprint: str) -> Upload:
        """Return the one with this id; NotFound also where another model has embedded it."""
        found = self.get(name)
        if found.fingerprint != fingerprint:
            raise NotFound(
                "this photo was dropped while another model was served",
                fix="drop it on the page again",
                field="photo",
                value=name[:40],
            )
        return found

    def get(self, name: str) -> Upload:
        """Return the one with this id; NotFound where it is forgotten."""
        found = self._held.get(name)
        if found is None:
            raise NotFound(
                "the server no longer holds this photo",
                fix="drop it on the page again",
                field="photo",
                value=name[:40],
            )
        return found
