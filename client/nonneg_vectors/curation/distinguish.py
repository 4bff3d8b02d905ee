"""What distinguishes two collections, in words: the dimensions of which one has more, with the photos that show it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nonneg_vectors.curation.collection import Collection, Group, Section, cut_alike, found_at
from nonneg_vectors.curation.differences import Differences, differences, in_words
from nonneg_vectors.search.query_and_hits import DimensionNames, name_of

EXEMPLARS = 6
WEAKER = "what photos have little of is not seen, and fewer dimensions are named"
OFTEN = ("share A", "share B", "times", "times low", "times high")
COLUMNS = ("dimension", "name", "more in", *OFTEN, "effect", "low", "high", "q")


def distinguish(a: Collection, b: Collection, names: DimensionNames, discoveries: float = 0.05) -> Section:
    """Find the dimensions that differ, named ones first, the largest effects first; with the photos that have most."""
    a.vectors.same_form(b.vectors)
    a, b = cut_alike(a, b)
    statistics = differences(a.vectors, b.vectors)
    named = sorted(statistics.named(discoveries).tolist(), key=lambda d: d not in names)  # words before numbers
    strongest = [_strongest(c, named) for c in (a, b)]
    rows, groups = [], []
    for place, d in enumerate(named):
        side = int(statistics.effect[d] > 0)
        rows.append(_row(d, statistics, names))
        title = sentence(name_of(d, names), statistics, d)
        collection, exemplars = (a, b)[side], strongest[side][place]
        groups.append(Group(title, tuple(found_at(collection, i, "", f"{value:.3f}") for i, value in exemplars)))
    how = (
        f"B ({b.title}, {len(b)} photos) beside A ({a.title}, {len(a)} photos), by the mean of each dimension; "
        "effect: the difference in standard deviations, with its 95 % interval; q: of those named, at most "
        f"{discoveries:.0%} are expected to differ by chance alone (Welch; Benjamini and Hochberg over "
        f"{len(statistics.q)} dimensions)."
    )
    notes = a.cut_note(WEAKER) or b.cut_note(WEAKER)
    if not named:
        notes = (*notes, f"Nothing distinguishes them at {discoveries:.0%} false discoveries.")
    return Section(
        "differences", f"What distinguishes {b.title} from {a.title}", how, tuple(groups), notes, COLUMNS, tuple(rows)
    )


def sentence(name: str, statistics: Differences, d: int) -> str:
    """Return what differs, in words: `snow: 3.1x (2.2x to 4.4x) as strong, in 12.4% of the photos instead of 4.0%`."""
    strong = f"{statistics.times[d]:.2g}x ({statistics.times_low[d]:.2g}x to {statistics.times_high[d]:.2g}x) as strong"
    return in_words(name, float(statistics.share_a[d]), float(statistics.share_b[d]), strong)


def _row(d: int, statistics: Differences, names: DimensionNames) -> tuple[object, ...]:
    values = [statistics.share_a, statistics.share_b, statistics.times, statistics.times_low, statistics.times_high]
    values += [statistics.effect, statistics.low, statistics.high, statistics.q]
    numbers = [float(value[d]) if np.isfinite(value[d]) else None for value in values]  # infinite where A has none
    return (d, names.get(d, ""), "B" if statistics.effect[d] > 0 else "A", *numbers)


def _strongest(collection: Collection, dimensions: Iterable[int]) -> list[list[tuple[int, float]]]:
    """Return the photos that have most of each dimension, the strongest first."""
    vectors = collection.vectors
    owner = np.repeat(np.arange(len(vectors)), vectors.nnz)
    order = np.lexsort((owner, -vectors.values, vectors.indices))
    begins = np.searchsorted(vectors.indices[order], np.arange(vectors.dimensions + 1))
    spans = [order[begins[d] : min(begins[d] + EXEMPLARS, begins[d + 1])] for d in dimensions]
    return [list(zip(owner[span].tolist(), vectors.values[span].tolist(), strict=True)) for span in spans]
