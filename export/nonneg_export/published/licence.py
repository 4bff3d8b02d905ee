"""What a model's licence allows, as far as its card's short name tells."""

from __future__ import annotations

from typing import Any

from nonneg_core.errors import ConfigInvalid

NOT_STATED = "not stated"


def licence_of(card: dict[str, Any]) -> str:
    """Return the licence on a model card: its name where the short one is `other`."""
    short, name = card.get("license"), card.get("license_name")
    found = name if short in (None, "other") and isinstance(name, str) else short
    if isinstance(found, list):
        return ", ".join(map(str, found))
    return str(found) if found else NOT_STATED


def check_licence(licence: str, target: str, *, accepted: str | None) -> str | None:
    """Refuse what forbids changed copies, unless accepted by name; a sentence where only some uses are allowed."""
    short = licence.lower()
    if "-nd" in short and accepted != licence:
        raise ConfigInvalid(
            f"{target} is under {licence}, which forbids passing on changed copies, and a bundle is one",
            fix=f"wrap it for your own use with --accept-license {licence}, or choose another model",
            field="license",
            value=licence,
        )
    if "-nc" in short or "non-commercial" in short or "noncommercial" in short or "research" in short:
        return f"{target} is under {licence}: not for commercial use, and its vectors likely neither"
    if licence == NOT_STATED:
        return f"{target} states no licence: ask its author before you use it for more than a trial"
    return None
