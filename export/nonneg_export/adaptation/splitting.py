"""Photos in two parts: one to fit a head on, one to judge it by; copies of a photo never lie in both.

Which part a photo is in depends on the content of its file, so that it stays there under any name and in any folder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nonneg_core.curation.likeness import coarse, likeness, mirrored, standardised
from nonneg_core.curation.neighbours import PairLimits, Pairs, copies
from nonneg_core.errors import DataInvalid
from nonneg_core.heads.head import Head
from nonneg_core.shortening import unit
from nonneg_export.adaptation.features import Features
from nonneg_export.adaptation.records import Numbers

JUDGED = 4  # one photo of so many is kept to judge by
MOST_JUDGED = 5000
GATES = 10  # of the others, one of so many sets the gates
MOST_GATES = 1000
LEAST = 50  # photos that are not copies of each other
COPIES = PairLimits()
AT_ONCE = 512  # photos that are compared with those of two parts


@dataclass(frozen=True, eq=False)
class Parts:
    """Readable photos by number: to fit on, to set the gates by, to judge by; copies are in none of the last two."""

    fit: Numbers
    gate: Numbers
    judged: Numbers
    copies: int  # photos that were taken out of the last two parts as copies


def split(features: Features, head: Head) -> Parts:
    """Return the parts of the photos; `head`: whose vectors tell copies, together with thumbnails."""
    everyone = np.arange(len(features))
    beginnings = features.digests(everyone).view("<u8").reshape(-1, 4)[:, 0].copy()
    first = np.zeros(len(features), dtype=bool)  # of equal files
    first[np.unique(beginnings, return_index=True)[1]] = True
    if first.sum() < LEAST:
        raise _too_few(len(features), int(first.sum()), int((~first).sum()))
    one, other = beginnings.view("<u4").reshape(-1, 2).T
    judges = one % max(JUDGED, -(-len(features) // MOST_JUDGED)) == 0
    gates = ~judges & (other % max(GATES, -(-len(features) // MOST_GATES)) == 0)
    apart = judges | gates
    near = _copied(features, head, everyone[apart & first], everyone[first])
    copied = np.union1d(everyone[apart & ~first], near)
    gate, judged = (np.setdiff1d(everyone[some], copied) for some in (gates, judges))
    found = Parts(everyone[~apart], gate, judged, len(copied))
    if len(found.judged) < 2 or len(found.gate) < 1:
        raise _too_few(len(features), int(first.sum()), len(copied))
    return found


def _too_few(photos: int, distinct: int, copied: int) -> DataInvalid:
    return DataInvalid(
        f"{photos} photos, {distinct} of them different files and {copied} copies of others, are too "
        "few to fit a head on some and judge it by others",
        fix=f"give at least {LEAST} different photos, better 500",
        field="photos",
        value=distinct,
        limit=LEAST,
    )


def _copied(features: Features, head: Head, apart: Numbers, everyone: Numbers) -> Numbers:
    """Return the photos of `apart` that are copies of one that is not in it, or of an earlier one in it."""
    mine = unit(head.embed(features.roots(apart)))
    pictures = standardised(features.thumbnails(apart))
    small = coarse(pictures)
    place = np.full(len(features), -1)
    place[apart] = np.arange(len(apart))
    copied = np.zeros(len(apart), dtype=bool)
    for start in range(0, len(everyone), AT_ONCE):
        others = everyone[start : start + AT_ONCE]
        theirs = standardised(features.thumbnails(others))
        near = unit(head.embed(features.roots(others))) @ mine.T  # cosines (others, apart)
        rough = np.maximum(coarse(theirs) @ small.T, coarse(mirrored(theirs)) @ small.T)
        look = (near >= COPIES.least) & (rough >= COPIES.coarse) & ~copied
        row, column = np.nonzero(look & (place[others][:, None] < np.arange(len(apart))))
        alike = likeness(theirs, row, column, pictures)
        copied[column[copies(Pairs(row, column, near[row, column], alike), COPIES)]] = True
    return apart[copied]
