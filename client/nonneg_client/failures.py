"""What failed in a bulk run: one line of JSON an image, beside the file of vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nonneg_client.results import Failure
from nonneg_core.atomic import atomic_write, storage_error
from nonneg_core.errors import DataInvalid

FailureRecord = dict[str, Any]  # {"id": ..., "type": ..., "message": ..., "fix": ...}


def reason(failure: Failure) -> FailureRecord:
    """Return a failure as it is listed."""
    return {
        "id": failure.id,
        "type": failure.error.type,
        "message": failure.error.message,
        "fix": failure.error.fix,
    }


def failures_of(out: Path) -> Path:
    """Return where the failures of a file are listed."""
    return out.with_name(out.name + ".failed.jsonl")


def list_failures(out: Path, reasons: list[FailureRecord], folder: Path) -> None:
    """Write the list, by way of a folder on the same disk, or remove it when nothing failed."""
    path = failures_of(out)
    if not reasons:
        path.unlink(missing_ok=True)
        return
    written = folder / path.name
    with atomic_write(written) as temporary:
        temporary.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in reasons), encoding="utf-8")
    try:
        written.replace(path)
    except OSError as error:
        raise storage_error(path, error) from error


def read_failures(out: Path) -> list[FailureRecord]:
    """Return what failed when the file was made."""
    path = failures_of(out)
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise DataInvalid(f"{path} is damaged ({error})", fix="remove it and embed again") from error
