"""The result of each image, a vector or a failure; parts of a stream; failures as lines of JSON beside a file."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nonneg_core.arrays import Floats
from nonneg_core.errors import DataInvalid, FingerprintMismatch, NonnegError
from nonneg_core.files.atomic import atomic_write, storage_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SparseVector:
    """One image's embedding."""

    id: str
    indices: "NDArray[np.int32]"
    values: Floats


@dataclass(frozen=True)
class Failure:
    """One image that could not be embedded, and why."""

    id: str
    error: NonnegError


@dataclass(frozen=True)
class BatchResult:
    """The outcome of one batch; the model's name and fingerprint are empty where every image failed before sending."""

    results: tuple[SparseVector | Failure, ...]
    model: str = ""
    fingerprint: str = ""
    dimensions: int = 0
    normalized: bool = True


def joined(first: BatchResult, second: BatchResult) -> BatchResult:
    """Return the description of both parts; raises where the model changed between them."""
    if not first.fingerprint:
        return replace(second, results=())
    if second.fingerprint and (first.fingerprint, first.dimensions) != (second.fingerprint, second.dimensions):
        raise FingerprintMismatch(
            f"the server changed from model {first.fingerprint} to {second.fingerprint} between two requests",
            fix="embed everything again",
            value=second.fingerprint,
        )
    return replace(first, results=())


# What failed in a bulk run: one line of JSON an image, beside the file of vectors.

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
