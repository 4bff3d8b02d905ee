"""Drift: are the images that come now like those on which the dimensions were ranked?

A dimension is active on some share of images: the manifest says on which share of the calibration images, the server's
counts on which share of the recent ones. The population stability index of one dimension is that of its two shares,

    (live - known) * log(live / known) + (known - live) * log((1 - live) / (1 - known)),

and the model's is the mean over its dimensions. The usual reading: below 0.1 alike, above 0.25 different.

Which dimensions moved is said one by one: those whose two shares differ, at 5 % false discoveries over all dimensions
(as `nonneg diff` decides), the largest differences first. Nothing is kept for it but the server's counts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nonneg_vectors.curation.differences import in_words, shares_differ

if TYPE_CHECKING:
    from nonneg_server.engine.inference_engine import InferenceEngine

LEAST_IMAGES = 100  # below, a share says nothing
MOST = 10  # dimensions that are named
DISCOVERIES = 0.05  # of these, the share that is expected to be there by chance
DEAD = 1e-3  # a dimension active less often than on one image in a thousand


@dataclass(frozen=True)
class DriftMeasure:
    """How far the live activations are from the calibration's."""

    psi: float
    newly_dead: int  # active on calibration images, on none of the recent ones
    newly_alive: int  # the other way round


@dataclass(frozen=True)
class Moved:
    """A dimension that is active more or less often than on the calibration images."""

    dimension: int
    then: float  # share of the images
    now: float

    @property
    def times(self) -> float:
        """As often as then; infinite for a new one."""
        return self.now / self.then if self.then else math.inf


def moved(known: NDArray[Any], calibrated: int, live: NDArray[Any], images: float) -> list[Moved]:
    """Return the dimensions that moved most, at most ten; none until enough images came."""
    if images < LEAST_IMAGES or not calibrated:
        return []
    named = np.flatnonzero(shares_differ(known, calibrated, live, images) <= DISCOVERIES)
    distance = np.abs(np.arcsin(np.sqrt(live)) - np.arcsin(np.sqrt(known)))  # as far apart at 1 and 5 % as at 40 and 53
    order = named[np.argsort(-distance[named], kind="stable")][:MOST]
    return [Moved(int(d), float(known[d]), float(live[d])) for d in order]


def moved_at(engine: "InferenceEngine") -> list[Moved]:
    """Return the dimensions of a served model that moved most."""
    manifest, stats = engine.bundle.manifest, engine.stats.flush()
    known = np.asarray(manifest.columns.frequency)
    return moved(known, manifest.calibration.images, stats.frequencies(), stats.weight)


def sentences(moves: list[Moved], names: Mapping[int, str], images: int, since: float) -> list[str]:
    """Return a sentence for each dimension that moved, as `nonneg diff` says it; so many images came since a time."""
    when = f"{images} images since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M} UTC"
    often = "{:.2g}x as often as on the calibration photos"
    called = [names.get(m.dimension) or f"dim {m.dimension}" for m in moves]
    lines = [in_words(name, m.then, m.now, often.format(m.times)) for name, m in zip(called, moves, strict=True)]
    return [f"{sentence} ({when})" for sentence in lines]


def drift(known: NDArray[Any], live: NDArray[Any], images: float) -> DriftMeasure | None:
    """Compare activation frequencies (D,) then and now; None until enough images came."""
    if images < LEAST_IMAGES:
        return None
    floor = 0.5 / images  # a share that was not seen may still be this large
    p, q = np.clip(known, floor, 1 - floor), np.clip(live, floor, 1 - floor)
    psi = (q - p) * np.log(q / p) + (p - q) * np.log((1 - q) / (1 - p))  # (D,)
    expected = known * images  # a rare dimension that was not seen is not dead yet
    dead = (live == 0) & (expected > 10) & (known > DEAD)
    alive = (live > DEAD) & (known <= 0)
    return DriftMeasure(float(psi.mean()), int(dead.sum()), int(alive.sum()))
