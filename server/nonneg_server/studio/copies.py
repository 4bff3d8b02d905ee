"""Whether two photos are copies of one: by their cosine and the likeness of their thumbnails, as curation judges."""

from __future__ import annotations

from typing import Any

import numpy as np

from nonneg_core.curation.likeness import likeness, standardised
from nonneg_core.curation.neighbours import PairLimits, Pairs, copies
from nonneg_core.curation.pixel_checks import check_pixels
from nonneg_core.pixels.decode import decode
from nonneg_core.shortening import Vectors, shorten

ONE, OTHER = np.zeros(1, np.intp), np.ones(1, np.intp)
UNKNOWN: dict[str, Any] = {"likeness": None, "copy": None}  # where one of the two cannot be read


def judged(pictures: list[bytes], vectors: list[Vectors], kept: int | None) -> dict[str, Any]:
    """Return how alike two small copies of photos are, and whether the photos are copies, by their whole vectors.

    kept: how many of each vector's entries are stored, if not all; of these alone copies have smaller cosines.
    """
    limits = PairLimits() if kept is None else PairLimits().of_cut_vectors()
    a, b = (shorten(z, min(map(len, vectors)), kept) for z in vectors)
    same = pictures[0] == pictures[1]
    alike = 1.0 if same else _likeness(pictures)
    pair = Pairs(ONE, OTHER, np.array([a @ b], np.float32), np.array([alike], np.float32))
    return {"likeness": alike, "copy": same or bool(copies(pair, limits)[0])}


def _likeness(pictures: list[bytes]) -> float:
    grey = [np.frombuffer(check_pixels(decode(data)).thumbnail, np.uint8) for data in pictures]
    return float(likeness(standardised(np.stack(grey)), ONE, OTHER)[0])
