"""Names for columns that stand for none of the classes: what their strongest photos show.

A name is chosen on some photos, where it must hold on both halves of them, and checked on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STRONGEST = 20  # photos of each half of those that choose a name
CHECKED = 10  # strongest photos of those that check it
CLEAR = 0.6  # share of a name among them, on all three
LIFT = 3  # and so many times its share of all photos: most photos show an animal, and that says nothing

AnyFloats = NDArray[np.floating]
Shown = Sequence[Sequence[str]]  # what each photo shows: its class and everyday words for it


@dataclass(frozen=True)
class Observed:
    """A column's name, and how many of its strongest photos show it among photos that did not choose it."""

    column: int
    name: str
    precision: float
    photos: int  # that show it, among those it was checked on


def observed_names(codes: AnyFloats, shown: Shown, checking: AnyFloats, shown_there: Shown) -> tuple[Observed, ...]:
    """Return the names that hold on both halves of the photos that choose them, and on the photos that check them.

    codes, checking: (photos, columns), rows of length one. Of several names that hold the one that is rarest among all
    photos is taken: a dog before an animal.
    """
    terms = sorted({term for words in shown for term in words})
    has, has_there = _members(shown, terms), _members(shown_there, terms)
    usual = np.maximum(has.mean(axis=0), has_there.mean(axis=0))  # (terms,)
    least = np.maximum(CLEAR, LIFT * usual)
    halves = [_shares(codes[i::2], has[i::2], STRONGEST) for i in (0, 1)]  # (columns, terms) each
    there = _shares(checking, has_there, CHECKED)
    holds = (halves[0] >= least) & (halves[1] >= least) & (there >= least)
    rarest = np.where(holds, usual, np.inf).argmin(axis=1)
    count = has_there.sum(axis=0)
    return tuple(
        Observed(int(j), terms[rarest[j]], float(there[j, rarest[j]]), int(count[rarest[j]]))
        for j in np.flatnonzero(holds.any(axis=1))
    )


def _members(shown: Shown, terms: Sequence[str]) -> NDArray[np.float64]:
    place = {term: i for i, term in enumerate(terms)}
    found = np.zeros((len(shown), len(terms)))
    for photo, words in enumerate(shown):
        found[photo, [place[word] for word in words if word in place]] = 1
    return found


def _shares(codes: AnyFloats, has: NDArray[np.float64], strongest: int) -> NDArray[np.float64]:
    """Return every term's share among each column's strongest photos; photos on which it is zero show nothing."""
    order = np.argsort(-codes, axis=0, kind="stable")[:strongest]  # (strongest, columns)
    active = np.take_along_axis(codes, order, axis=0) > 0
    found: NDArray[np.float64] = np.einsum("sct,sc->ct", has[order], active) / strongest
    return found
