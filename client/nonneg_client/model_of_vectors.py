"""Names of dimensions, and scores of random photos, from the model that made stored vectors, where it is installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nonneg_core.errors import FingerprintMismatch
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle, shipped_names
from nonneg_runtime.bundle.head_file import fitted_on
from nonneg_runtime.words.column_facts import names_of as names_in
from nonneg_runtime.words.column_facts import names_shipped, shipped_model, statistics_shipped
from nonneg_runtime.words.column_facts import statistics_of as statistics_in
from nonneg_vectors.expressions.weightings import ColumnStatistics
from nonneg_vectors.search.index import Index as PlainIndex
from nonneg_vectors.search.query_and_hits import DimensionNames
from nonneg_vectors.search.vector_engine import Description, Engine


def names_of(fingerprint: str, bundle: str | os.PathLike[str] | None = None) -> DimensionNames:
    """Return the names that a bundle, or the shipped model of this fingerprint, gives its dimensions, if any."""
    return names_shipped(fingerprint) if bundle is None else names_in(bundle_of(fingerprint, bundle))


def statistics_of(fingerprint: str, bundle: str | os.PathLike[str] | None = None) -> ColumnStatistics | None:
    """Return a bundle's statistics, or without one those of the shipped model of this fingerprint; None of another."""
    return statistics_shipped(fingerprint) if bundle is None else statistics_in(bundle_of(fingerprint, bundle))


def shipped_name(description: Description) -> str:
    """Return the model that comes with nonneg and made an index's vectors; raises where none did."""
    return shipped_model(description.model, description.fingerprint)


def bundle_of(fingerprint: str, bundle: str | os.PathLike[str]) -> Bundle:
    """Return the bundle that stored vectors are of; raises where it is another one."""
    model_bundle = open_bundle(bundle)
    if model_bundle.manifest.fingerprint != fingerprint:
        raise FingerprintMismatch(
            f"{bundle} is of model {model_bundle.manifest.fingerprint}, the vectors are of {fingerprint}",
            fix="give the bundle that they were made with, or none",
            value=model_bundle.manifest.fingerprint,
        )
    return model_bundle


@dataclass(frozen=True)
class KnownModel:
    """What is known of the model of some vectors and photos; None where its bundle is not here."""

    named: int | None  # of the first dimensions, those that have a name
    fitted: int | None  # of the photos, those that its head was fitted on


def known_model(
    fingerprint: str, dimensions: int, photos: Sequence[Path], *bundles: str | os.PathLike[str] | None
) -> KnownModel:
    """Return what one of these bundles, or of the shipped ones, says of its names and of the photos."""
    places: list[str | os.PathLike[str]] = [bundle for bundle in bundles if bundle is not None]
    for name in (*places, *shipped_names()):
        if (bundle := open_bundle(name)).manifest.fingerprint == fingerprint:
            return KnownModel(sum(d < dimensions for d in names_in(bundle)), fitted_on(bundle.path, photos))
    return KnownModel(None, None)


class Index(PlainIndex):
    """Vectors of one model in an engine; names and statistics are the shipped model's, unless others are given.

    with Index.open("photos.index", like=embeddings) as index:
        index.add(embeddings)
        hits = index.search(query, k=10)
    """

    def __init__(
        self, engine: Engine, *, names: DimensionNames | None = None, statistics: ColumnStatistics | None = None
    ) -> None:
        """Search in an engine's vectors.

        names: of dimensions, for the reasons of hits. statistics: of the columns, which say where matches end.
        """
        fingerprint = engine.description.fingerprint
        super().__init__(
            engine,
            names=names_of(fingerprint) if names is None else names,
            statistics=statistics_of(fingerprint) if statistics is None else statistics,
        )
        if names is not None:
            own = names_of(fingerprint)
            self._always = {d: name for d, name in names.items() if own.get(d) != name}
