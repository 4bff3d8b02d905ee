"""A text in the queue: priced as it is admitted, and embedded by a model's text tower on a thread, as an image is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from nonneg_core.errors import ParameterInvalid
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.shortening import unit
from nonneg_runtime.inference.sessions import Sessions
from nonneg_server.engine.encoded import Encoded

CHARACTER = 4  # bytes that one may take


@dataclass(frozen=True, slots=True)
class Text:
    """A text in the place of an image: for the model's text tower, or looked up in its lexicon."""

    text: str
    field: str
    truncate: bool = False  # read its beginning where it is too long

    @property
    def weight(self) -> int:
        """Bytes that it holds while it waits."""
        return CHARACTER * len(self.text)

    @property
    def price(self) -> Price:
        """What it costs the queue: it is never a large job, so that none waits behind large images."""
        return Price("TEXT", 0, 0, 0.0, self.weight)

    @property
    def way(self) -> str:
        """How it is read, for a cache to tell it from the bytes of an image."""
        return "text, cut" if self.truncate else "text"


def text_job(sessions: Sessions, text: Text, queued: float) -> Callable[[], Encoded]:
    """Return what a thread does with a text that was queued at this time."""
    return partial(_embed, sessions, text, queued)


def _embed(sessions: Sessions, text: Text, queued: float) -> Encoded:
    tower = sessions.text()
    assert tower is not None  # a text for a model without one is looked up, and not queued
    started = time.perf_counter()
    try:
        tokens = tower.tokens(text.text, truncate=text.truncate)
    except ParameterInvalid as error:
        error.field = text.field
        raise
    read = time.perf_counter()
    vector = unit(tower.run(tokens))
    return Encoded(vector, started - queued, read - started, time.perf_counter() - read, of_text=True)
