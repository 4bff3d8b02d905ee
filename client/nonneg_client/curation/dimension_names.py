"""What the dimensions of a collection are called, where its model is at hand and says so."""

from __future__ import annotations

from nonneg_client.curation.overview import Names
from nonneg_core.errors import FingerprintMismatch


def names_of(fingerprint: str, bundle: str | None = None) -> Names:
    """The names that a bundle, or without one the default model, gives its dimensions; none if it is another model."""
    try:
        from nonneg_client.local import named_dimensions
    except ModuleNotFoundError:  # nothing is installed that reads models
        return {}
    held, names = named_dimensions(bundle)
    if held == fingerprint:
        return names
    if bundle is not None:
        raise FingerprintMismatch(
            f"{bundle} is of model {held}, the vectors are of {fingerprint}",
            fix="give the bundle that they were made with, or none",
            value=held,
        )
    return {}
