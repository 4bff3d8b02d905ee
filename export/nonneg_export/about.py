"""What a person says about a model that is made: its name, its version, its licences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nonneg_export.published.licence import NOT_STATED as NOT_STATED

LONGEST = 100  # letters of a name


@dataclass(frozen=True)
class About:
    """What a person says about a model."""

    name: str
    version: str = "1"
    weights_license: str = NOT_STATED
    data_license: str = NOT_STATED


def name_after(out: Path) -> str:
    """Return the name that a bundle's folder gives its model."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", out.name.removesuffix(".bundle")).strip("-._")[:LONGEST] or "model"
