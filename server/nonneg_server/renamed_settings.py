"""Settings and values that have another name since the last release: the old ones still work, with a warning."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from nonneg_server.settings import PREFIX

RENAMED = {"silence": "read_timeout", "arrival": "receive_timeout", "wide": "all_cores"}
RENAMED_VALUES = {"decode": {"fastest": "fast"}}  # of a setting: the old value, and the present one
logger = logging.getLogger("nonneg")


def with_new_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Put each setting under its present name; one given under both keeps the present one's value."""
    found = dict(given)
    for old, new in RENAMED.items():
        if old in found:
            value = found.pop(old)
            found.setdefault(new, value)
            _warn(old, new)
    for name, values in RENAMED_VALUES.items():
        if isinstance(former := found.get(name), str) and former in values:
            found[name] = values[former]
            _warn(f"{name}={former}", f"{name}={values[former]}")
    return found


def from_old_variables() -> dict[str, str]:
    """Return what the environment sets by old names alone, or to old values."""
    found = {}
    for old, new in RENAMED.items():
        value = os.environ.get(PREFIX + old.upper())
        if value and not os.environ.get(PREFIX + new.upper()):
            found[new] = value
            _warn(PREFIX + old.upper(), PREFIX + new.upper())
    for name, values in RENAMED_VALUES.items():
        if (value := os.environ.get(PREFIX + name.upper(), "")) in values:
            found[name] = values[value]
            _warn(f"{PREFIX}{name.upper()}={value}", f"{PREFIX}{name.upper()}={values[value]}")
    return found


def _warn(old: str, new: str) -> None:
    logger.warning("%s is called %s now; the old name works in this release, and not in the next", old, new)
