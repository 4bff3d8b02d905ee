"""A bundle as a backbone: what its encoder computes before the head, without a tool for graphs.

The head's weights lie in a file beside the graph, so a head that lets the features through can be put there.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid
from nonneg_core.heads.adapted import passing
from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Rows, Spread
from nonneg_core.pixels.view import Pixels, View
from nonneg_runtime.bundle import Bundle, storing
from nonneg_runtime.head_file import read_head, read_spread, write_head
from nonneg_runtime.open import open_session
from nonneg_runtime.variants import open_variant


@dataclass(frozen=True, eq=False)
class Source:
    """The bundle that is adapted, in its fastest form that computes rightly here, with its head and statistics."""

    bundle: Bundle
    head: Head
    ordinary: Spread  # what the head was fitted on
    named: int  # columns at the end that have names

    @property
    def view(self) -> View:
        """How its encoder sees photos."""
        return self.bundle.manifest.view

    @property
    def features(self) -> int:
        """How many features the head takes."""
        return int(self.head.weight.shape[0])

    @property
    def digest(self) -> str:
        """Names all that its features depend on."""
        encoder = self.bundle.manifest.files[self.bundle.file].sha256
        return hashlib.sha256(f"{encoder} {self.view.model_dump_json()}".encode()).hexdigest()


def open_source(path: str | Path | None) -> Source:
    """The bundle at `path`, or the shipped model of that name."""
    bundle = open_variant(path, "auto")
    record = bundle.manifest.head
    if record is None or not record.spread or record.takes != "roots":
        raise ConfigInvalid(
            f"{bundle.path} has no head in a file of its own with the statistics it was fitted on",
            fix="adapt a model that comes with nonneg, or one that `nonneg adapt` made",
            field="from",
            value=str(bundle.path),
        )
    head = read_head(bundle.path / record.file)
    features = head.weight.shape[0]
    if features > head.dimensions:
        raise ConfigInvalid(
            f"the head of {bundle.path} has {head.dimensions} dimensions for {features} features",
            fix=f"adapt a bundle of at least {features} dimensions; its vectors can be shortened",
            field="from",
            value=head.dimensions,
            limit=features,
        )
    names = bundle.manifest.names
    return Source(bundle, head, read_spread(bundle.path / record.spread), _named(names is not None, bundle, head))


def _named(there: bool, bundle: Bundle, head: Head) -> int:
    """How many columns at the end lie along a class that they are called after."""
    if not there:
        return 0
    from nonneg_runtime.names import read_names

    record = bundle.manifest.names
    assert record is not None
    names = read_names(bundle.path / record.file, head.dimensions).names
    return head.dimensions - min((name.dimension for name in names), default=head.dimensions)


class Backbone:
    """Roots of features, computed by a source's encoder behind a head that lets them through."""

    def __init__(self, source: Source, work: Path, callers: int) -> None:
        """`work`: a folder that lasts as long as this."""
        self.features, self._power = source.features, source.head.power
        record = source.bundle.manifest.head
        assert record is not None
        encoder = work / source.bundle.file
        with storing(work):
            shutil.copyfile(source.bundle.encoder, encoder)
            write_head(passing(self.features, source.head), work / record.file)
        self._session = open_session(encoder, callers=callers, precision=source.bundle.manifest.precision)

    def roots(self, pixels: Pixels) -> Rows:
        """Roots of the pooled features of a batch, (batch, features)."""
        powers: NDArray[np.float32] = self._session.run(pixels)[:, : self.features]
        return np.asarray(powers ** np.float32(1 / self._power))
