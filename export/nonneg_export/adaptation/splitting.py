"""Photos in two parts: one to fit a head on, one to judge it by; copies of a photo never lie in both.

Which part a photo is in depends on the content of its file, so that it stays there under any name and in any folder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.likeness import Thumbnails, coarse, likeness, mirrored, standardised
from nonneg_core.curation.neighbours import PairLimits, Pairs, copies
from nonneg_core.errors import DataInvalid
from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Rows
from nonneg_core.shortening import unit
from nonneg_export.adaptation.features import Features
from nonneg_export.adaptation.records import CHUNK, Numbers

JUDGED = 4  # one photo of so many is kept to judge by
MOST_JUDGED = 5000
GATES = 10  # of the others, one of so many sets the gates
MOST_GATES = 1000
LEAST = 50  # photos that are not copies of each other
COPIES = PairLimits()
PAIRS = 100_000  # whose thumbnails are compared at a time


@dataclass(frozen=True, eq=False)
class Parts:
    """Readable photos by number: to fit on, to set the gates by, to judge by; copies are in none of the last two."""

    fit: Numbers
    gate: Numbers
    judged: Numbers
    copies: int  # photos that were taken out of the last two parts as copies


def split(features: Features, head: Head) -> Parts:
    """The parts of the photos; `head`: whose vectors tell copies, together with thumbnails."""
    everyone = np.arange(len(features))
    digests = features.digests(everyone)
    one, other = np.frombuffer(digests.tobytes(), dtype="<u4").reshape(len(digests), 8)[:, :2].T
    judges = one % max(JUDGED, -(-len(features) // MOST_JUDGED)) == 0
    gates = ~judges & (other % max(GATES, -(-len(features) // MOST_GATES)) == 0)
    copied = _copied(features, head, everyone[judges | gates])
    gate, judged = (np.setdiff1d(everyone[some], copied) for some in (gates, judges))
    found = Parts(everyone[~judges & ~gates], gate, judged, len(copied))
    distinct = len(np.unique(digests))
    if distinct < LEAST or len(found.judged) < 2 or len(found.gate) < 1:
        raise DataInvalid(
            f"{len(features)} photos, {distinct} of them different files and {len(copied)} near-copies, are too few "
            "to fit a head on some and judge it by others",
            fix=f"give at least {LEAST} different photos, better 500",
            field="photos",
            value=distinct,
            limit=LEAST,
        )
    return found


def _copied(features: Features, head: Head, apart: Numbers) -> Numbers:
    """Of the photos apart those that are copies of one that is not, or of an earlier one that is apart."""
    mine = unit(head.embed(features.roots(apart)))
    pictures = standardised(features.thumbnails(apart))
    place = np.full(len(features), -1)
    place[apart] = np.arange(len(apart))
    copied = np.zeros(len(apart), dtype=bool)
    for start in range(0, len(features), CHUNK):
        others = np.arange(start, min(start + CHUNK, len(features)))
        cosines = unit(head.embed(features.roots(others))) @ mine.T  # (others, apart)
        earlier = (place[others][:, None] < 0) | (place[others][:, None] < np.arange(len(apart))[None])
        near = np.argwhere((cosines >= COPIES.least) & earlier)
        theirs = standardised(features.thumbnails(others))
        for begin in range(0, len(near), PAIRS):
            row, column = near[begin : begin + PAIRS].T
            copied[column[_alike(theirs, row, pictures, column, cosines[row, column])]] = True
    return apart[copied]


def _alike(theirs: Thumbnails, row: Numbers, mine: Thumbnails, column: Numbers, cosine: Rows) -> NDArray[np.bool_]:
    """Which pairs are copies; thumbnails are compared in full only where their coarse forms correlate."""
    small = coarse(mine)[column]
    rough = [np.einsum("ij,ij->i", small, coarse(form)[row]) for form in (theirs, mirrored(theirs))]
    look = np.flatnonzero(np.maximum(*rough) >= COPIES.coarse)
    row, column = row[look], column[look]
    alike = likeness(np.concatenate([mine, theirs]), column, row + len(mine))
    found = np.zeros(len(cosine), dtype=bool)
    found[look] = copies(Pairs(column, row, cosine[look], alike), COPIES)
    return found
