"""What the studio answers of a model, a photo's dimensions, two photos side by side, and one dimension."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from nonneg_core.arrays import Doubles, Flags, Floats, Places
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.likeness import likeness
from nonneg_core.pixels.pixel_checks import check_pixels
from nonneg_core.shortening import Vectors, shorten
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import Columns as Evidence
from nonneg_server.models.explanation import can_locate
from nonneg_server.models.served_models import lengths
from nonneg_server.studio.folder import IndexedFolder
from nonneg_vectors.curation.neighbours import PairLimits, Pairs, copies
from nonneg_vectors.expressions.expression import Dimension, Photo
from nonneg_vectors.expressions.weightings import Chance


class Cards:
    """The dimensions of one model."""

    def __init__(self, names: Mapping[int, str], dimensions: int) -> None:
        self.names = names
        self.named: Flags = np.isin(np.arange(dimensions), list(names))
        self._having = Counter(name.casefold() for name in names.values())

    def __call__(self, j: int) -> dict[str, Any]:
        """Return one dimension in a list of others."""
        return {"dimension": j, "name": self.names.get(j), "term": self.term(j)}

    def of(self, z: Vectors, chance: Chance) -> "Cards":
        """Return the dimensions with the names that hold for a photo, whose vector has length one."""
        there = np.flatnonzero(self.named[: len(z)] & (z > 0))
        return Cards(chance.shown(self.names, there.tolist(), z[there].tolist()), len(self.named))

    def term(self, j: int) -> str:
        """Return a dimension as an expression says it: by its name where one dimension alone has it."""
        name = self.names.get(j)
        if name is None or name.isdecimal() or self._having[name.casefold()] > 1:
            return f"dim:{j}"
        return str(Dimension(name))


# One photo as bars, and two photos side by side: only here, shared, only there.


def bars(z: Vectors, cards: Cards, limit: int, *, named: bool = False) -> list[dict[str, Any]]:
    """Return the strongest dimensions of a vector of length one; `share` is their part of its squared length."""
    active = np.flatnonzero((z > 0) & cards.named[: len(z)] if named else z > 0)
    order = active[np.argsort(-z[active], kind="stable")][:limit].tolist()
    return [_bar(j, float(z[j]), float(z[j]) ** 2, cards) for j in order]


def pair(a: Vectors, b: Vectors, cards: Cards, chance: Chance, limit: int) -> dict[str, Any]:
    """Return what two vectors of length one share and do not; the parts of what is shared sum to the cosine."""
    of_both = cards.of(np.minimum(a, b), chance)
    products = a.astype(np.float64) * b.astype(np.float64)
    cosine = float(products.sum())
    shared = [
        {**_bar(int(j), float(products[j]), float(products[j]) / cosine, of_both), "values": [float(a[j]), float(b[j])]}
        for j in _largest(products, limit)
    ]
    return {
        "cosine": cosine,
        "shared": shared,
        "only_a": _only(a, b, cards.of(a, chance), limit),
        "only_b": _only(b, a, cards.of(b, chance), limit),
        "counts": [int(((a > 0) & (b == 0)).sum()), int((products > 0).sum()), int(((b > 0) & (a == 0)).sum())],
        "rest": cosine - sum(bar["value"] for bar in shared),
    }


def _only(one: Vectors, other: Vectors, cards: Cards, limit: int) -> list[dict[str, Any]]:
    alone = np.where(other > 0, np.float32(0), one)
    return bars(alone, cards, limit)


def _largest(products: Doubles, limit: int) -> list[int]:
    order = np.argsort(-products, kind="stable")[:limit]
    return [int(j) for j in order if products[j] > 0]


def _bar(j: int, value: float, share: float, cards: Cards) -> dict[str, Any]:
    return {**cards(j), "value": value, "share": share}


# Whether two photos are copies of one: by their cosine and the likeness of their thumbnails, as curation judges.

ONE, OTHER = np.zeros(1, np.intp), np.ones(1, np.intp)
UNKNOWN: dict[str, Any] = {"likeness": None, "copy": None}  # where one of the two cannot be read


def judged(pictures: list[bytes], vectors: list[Vectors], top_k: int | None) -> dict[str, Any]:
    """Return how alike two small copies of photos are, and whether the photos are copies, by their whole vectors.

    top_k: how many of each vector's entries are stored, if not all; of these alone copies have smaller cosines.
    """
    limits = PairLimits() if top_k is None else PairLimits().of_cut_vectors()
    a, b = (shorten(z, min(map(len, vectors)), top_k) for z in vectors)
    same = pictures[0] == pictures[1]
    alike = 1.0 if same else _likeness(pictures)
    pair = Pairs(ONE, OTHER, np.array([a @ b], np.float32), np.array([alike], np.float32))
    return {"likeness": alike, "copy": same or bool(copies(pair, limits)[0])}


def _likeness(pictures: list[bytes]) -> float:
    grey = [np.frombuffer(check_pixels(decode(data)).thumbnail, np.uint8) for data in pictures]
    return float(likeness(np.stack(grey), ONE, OTHER)[0])


# One dimension in a folder: the photos it is strongest in, what it goes together with, and how it drifts.

COMPANY = 8
STRONGEST = 48
EXEMPLARS = 3


def meaning(folder: IndexedFolder, j: int, line: float, evidence: Evidence, cards: Cards) -> dict[str, Any]:
    """Return what this folder says of a dimension, beside what its calibration said; `line`: from which on it shows."""
    whole = folder.engine.whole
    here, mean = int(whole.counts[j]) / max(1, len(folder)), float(folder.engine.means[j])
    return {
        "photos": [
            {**folder.entry(i), "value": float(value)} for i, value in zip(*whole.strongest(j, STRONGEST), strict=True)
        ],
        "count": int((whole.strengths(j) >= line).sum()),
        "of": len(folder),
        "frequency": here,
        "mean": mean,
        "drift": {
            "frequency": _ratio(here, evidence.frequency[j]),
            "mean": _ratio(mean, evidence.expected_activation[j]),
        },
        "company": company(folder, j, cards),
    }


def strongest(folder: IndexedFolder, j: int, count: int) -> list[str]:
    """Return the ids of the photos in which a dimension is strongest."""
    photos, _ = folder.engine.whole.strongest(j, count)
    return [folder.ids[i] for i in photos]


ALIKE = 8  # photos in which a dimension is strongest


def alikeness(folder: IndexedFolder) -> tuple[Places, Floats]:
    """Return the dimensions that enough photos have, the best first, and the mean cosine among the strongest photos."""
    vectors, whole = folder.engine.vectors, folder.engine.whole
    alike = np.zeros(vectors.dimensions, np.float32)
    for j in np.flatnonzero(whole.counts >= ALIKE).tolist():
        rows, _ = whole.strongest(j, ALIKE)
        squared = float((vectors[np.sort(rows)].numpy().sum(axis=0) ** 2).sum())
        alike[j] = (squared - ALIKE) / (ALIKE * (ALIKE - 1))
    order = np.argsort(-alike, kind="stable")
    return order[alike[order] > 0], alike


def company(folder: IndexedFolder, j: int, cards: Cards) -> list[dict[str, Any]]:
    """Return the dimensions whose columns have the largest cosine with this one's."""
    vectors, whole, lengths = folder.engine.vectors, folder.engine.whole, folder.engine.norms
    strengths = np.zeros(len(folder), np.float32)
    strengths[whole.active(j)] = whole.strengths(j)
    weights = np.repeat(strengths, vectors.nnz) * vectors.values
    together = np.bincount(vectors.indices, weights, minlength=vectors.dimensions)
    cosines = together / np.maximum(lengths * lengths[j], 1e-12)
    cosines[j] = 0
    order = np.argsort(-cosines, kind="stable")[:COMPANY]
    return [
        {**cards(o), "cosine": float(cosines[o]), "exemplars": strongest(folder, o, EXEMPLARS)}
        for o in order.tolist()
        if cosines[o]
    ]


def _ratio(here: float, there: float) -> float | None:
    return here / there if there > 0 else None


# What is looked at, in one answer: the model, its lengths, and the folder.


def overview(bundle: Bundle, dimensions: int, cards: Cards, folder: IndexedFolder | None) -> dict[str, Any]:
    """Return what is looked at; `dimensions`: the model's, or those of them that the folder's index holds."""
    manifest = bundle.manifest
    return {
        "model": manifest.name,
        "fingerprint": manifest.fingerprint,
        "dimensions": dimensions,
        "named": len(cards.names),
        "lengths": lengths(manifest),
        "where": can_locate(bundle),
        "folder": folder and {"name": folder.root.name, "photos": len(folder), "example": _example(folder, cards)},
    }


def _example(folder: IndexedFolder, cards: Cards) -> str:
    """Return a search that can be asked here: a photo, a dimension of the folder, and something that must not be."""
    if not len(folder):
        return ""
    width = min(folder.dimensions, len(cards.named))
    named = np.where(cards.named[:width], folder.engine.means[:width], -1)
    terms = [cards.term(j) for j in np.argsort(-named, kind="stable").tolist()]
    more, other = sorted(terms, key=lambda term: term[4:].isdecimal())[:2]  # those that can be said by name come first
    return f"{Photo(folder.names[0])} + 2*{more} !{other}"
