"""broken.json in an index's folder: images that could not be read, not tried again until their files change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from nonneg_client.sources.image_ids import Stamp
from nonneg_core.atomic import atomic_write
from nonneg_core.errors import NonnegError

FILE = "broken.json"


def is_broken(error: NonnegError) -> bool:
    """Return whether an error says something of the image, and not of a server or a network."""
    return error.type.startswith("image_")


def read_broken(index: Path) -> dict[str, Stamp]:
    """Return the images, with each one's size and time of the last change; none where the list is damaged."""
    try:
        held = json.loads((index / FILE).read_text(encoding="utf-8"))
        return {str(name): (int(size), int(changed)) for name, (size, changed) in held.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_broken(index: Path, broken: Mapping[str, Stamp]) -> None:
    """Keep the list, or remove it where it is empty."""
    if not broken:
        (index / FILE).unlink(missing_ok=True)
        return
    with atomic_write(index / FILE) as temporary:
        temporary.write_text(json.dumps(broken), encoding="utf-8")
