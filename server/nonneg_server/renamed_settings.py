"""Settings that have another name since the last release: the old names still work, and a warning says the new ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

RENAMED = {"silence": "read_timeout", "arrival": "receive_timeout", "wide": "all_cores"}
PREFIX = "NONNEG_"
logger = logging.getLogger("nonneg")


def with_new_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Put each setting under its present name; one given under both keeps the present one's value."""
    found = dict(given)
    for old, new in RENAMED.items():
        if old in found:
            value = found.pop(old)
            found.setdefault(new, value)
            _warn(old, new)
    return found


def from_old_variables() -> dict[str, str]:
    """Return what the environment sets by old names alone."""
    found = {}
    for old, new in RENAMED.items():
        value = os.environ.get(PREFIX + old.upper())
        if value and not os.environ.get(PREFIX + new.upper()):
            found[new] = value
            _warn(PREFIX + old.upper(), PREFIX + new.upper())
    return found


def _warn(old: str, new: str) -> None:
    logger.warning("%s is called %s now; the old name works in this release, and not in the next", old, new)
