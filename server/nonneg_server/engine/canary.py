"""The canary: a picture whose vector is known goes through queue, decoder and session now and then, while serving.

It is the test pattern that the exporter computed, as a PNG. A model whose answer to it is wrong answers everything
wrong, with status 200 each time; so it takes no more requests until the picture's vector is right again.
"""

import asyncio
import io
import logging
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from nonneg_core.arrays import Floats
from nonneg_core.errors import NotReady
from nonneg_core.pixels.view import View
from nonneg_runtime.bundle.evidence import Golden
from nonneg_runtime.inference.runner import cosine_to, test_pattern

if TYPE_CHECKING:
    from nonneg_server.engine.inference_engine import InferenceEngine

logger = logging.getLogger("nonneg")
INTERVAL = 60.0  # seconds from one to the next, at least,
IMAGES = 1000  # in which the threads can do this many images: a canary costs less than one in a thousand


class Canary:
    """One model's."""

    def __init__(self, name: str, view: View, golden: Golden) -> None:
        self.picture = picture_for(view)
        self.cosine: float | None = None  # of the last answer; None before the first
        self.bound = golden.tolerance
        self._name = name
        self._golden = golden

    def expect(self, vector: Floats) -> None:
        """Take what the session, just tested, answers for the golden one: this view makes other pixels of it."""
        active = np.flatnonzero(vector)
        values = tuple(map(float, vector[active]))
        self._golden = Golden(indices=tuple(map(int, active)), values=values, tolerance=self.bound)

    def note(self, vector: Floats | None) -> None:
        """Compare an answer; None where there was an error instead."""
        cosine = math.nan if vector is None else cosine_to(self._golden, vector)
        worked, self.cosine = self.works, cosine if math.isfinite(cosine) else 0.0
        if worked != self.works:
            state = "works again" if self.works else "takes no more requests"
            logger.error("%s %s: cosine %.6f of its canary, at least %s", self._name, state, self.cosine, self.bound)

    @property
    def works(self) -> bool:
        return self.cosine is None or self.cosine >= self.bound

    def check(self) -> None:
        """Raise NotReady if the last answer was wrong."""
        if not self.works:
            raise NotReady(
                f"{self._name} answers a picture that it knows with cosine {self.cosine:.6f}, less than {self.bound}",
                fix="restart this server, or ask another one",
                field="canary",
                value=self.cosine,
                limit=self.bound,
                retry_after=INTERVAL,
            )


class Canaries:
    """Looks once a second, on the event loop, whether to send one: one at a time for all models, in turn."""

    def __init__(self) -> None:
        self._next: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._last: dict[str, float] = {}  # by model, when it had its last

    def look(self, now: float, engines: "Iterable[InferenceEngine]") -> None:
        """Send one if it is time, to a model that is loaded, while a thread has nothing to do."""
        if self._next is None:
            self._next = now + INTERVAL
        if now < self._next or (self._task is not None and not self._task.done()):
            return
        able = [engine for engine in engines if engine.canary is not None and engine.sessions.session and engine.idle]
        if able:
            engine = min(able, key=lambda one: self._last.get(one.name, -math.inf))
            self._last[engine.name] = now
            self._next = now + max(INTERVAL, IMAGES / engine.admission.rate)
            self._task = asyncio.get_running_loop().create_task(engine.send_canary())


def picture_for(view: View) -> bytes:
    """Return the test pattern as a PNG of which the view sees the pattern, in the middle of what it cuts away."""
    side = round(view.size / view.crop)
    margin = (side - view.size) // 2
    padded = np.pad(test_pattern(view.size)[0], ((margin, side - view.size - margin),) * 2 + ((0, 0),))
    buffer = io.BytesIO()
    Image.fromarray(padded).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
