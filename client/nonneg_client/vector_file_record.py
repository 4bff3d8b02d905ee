"""What a file of vectors was made of, beside it: the root of its images, what was asked, and how each file looked then.

`photos.npz.origins.jsonl`: the first line is {"root": ..., "asked": {...}}, each other [id, bytes, changed].
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nonneg_client.sources.image_ids import Stamp
from nonneg_core.atomic import atomic_write
from nonneg_core.errors import DataInvalid


@dataclass
class VectorFileRecord:
    """Where vectors came from."""

    root: str  # absolute; ids are paths within it
    asked: dict[str, Any]  # dimensions, top_k, normalize, model
    stamps: dict[str, Stamp] = field(default_factory=dict)  # by id; without those that are not files


def record_path(out: Path) -> Path:
    """Return where the origins of a file of vectors are kept."""
    return out.with_name(out.name + ".origins.jsonl")


def write_record(path: Path, origins: VectorFileRecord) -> None:
    """Write them all."""
    lines = [{"root": origins.root, "asked": origins.asked}, *([name, *s] for name, s in origins.stamps.items())]
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def read_record(out: Path) -> VectorFileRecord | None:
    """Return the origins of a file of vectors, if they were kept."""
    path = record_path(out)
    if not path.exists():
        return None
    try:
        with path.open(encoding="utf-8") as file:
            head = json.loads(next(file))
            stamps = {name: (size, changed) for name, size, changed in map(json.loads, file)}
        return VectorFileRecord(head["root"], head["asked"], stamps)
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise DataInvalid(f"{path} is damaged ({error})", fix="remove it, or embed again with --replace") from error
