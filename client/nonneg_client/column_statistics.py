"""What is known of the columns of stored vectors, where their model is at hand: what random photos share."""

from __future__ import annotations

import os

from nonneg_client.dimension_names import bundle_of
from nonneg_core.chance import ColumnStatistics
from nonneg_runtime.column_statistics import statistics_of as statistics_in
from nonneg_runtime.column_statistics import statistics_shipped


def statistics_of(fingerprint: str, bundle: str | os.PathLike[str] | None = None) -> ColumnStatistics | None:
    """The statistics of a bundle, or without one of the shipped model of this fingerprint; None where it is another."""
    return statistics_shipped(fingerprint) if bundle is None else statistics_in(bundle_of(fingerprint, bundle))
