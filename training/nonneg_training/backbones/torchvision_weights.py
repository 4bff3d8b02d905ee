"""torchvision's files of weights: in torch's own folder, compared with the digest in their name, read as data alone."""

from __future__ import annotations

import hashlib
import pickle
import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import torch
from torch import hub

from nonneg_core.errors import ConnectionFailed, DataInvalid, DigestMismatch

DIGEST = re.compile(r"-([0-9a-f]{8,})\.")  # in the name of a file: how its sha256 begins


def fetch(weights: Any, limit: int | None = None) -> None:
    """Bring the file of a torchvision weight to where torchvision reads it, and verify it; `limit`: bytes.

    torchvision's own reading of the file would run code in it: only a file that is data alone comes that far.
    """
    path = Path(hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    if not path.exists():
        _download(weights, path, limit)
    _verify(path)
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataInvalid(
            f"{path} holds more than weights, or is broken ({reason})", fix="delete it, and run the command again"
        ) from error


def _download(weights: Any, path: Path, limit: int | None) -> None:
    size = weights.meta.get("_file_size", 0) * 2**20
    if limit is not None and size > limit:
        raise DataInvalid(
            f"{path.name} has {size / 2**20:,.0f} MB, more than {limit / 2**20:,.0f}",
            fix="choose another model, or raise --max-download",
            field="max_download",
            value=int(size),
            limit=limit,
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        hub.download_url_to_file(weights.url, str(path))
    except OSError as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise ConnectionFailed(
            f"{weights.url} cannot be fetched ({error})",
            fix=f"fetch it once where there is a network, and put it here: {path}",
        ) from error


def _verify(path: Path) -> None:
    """Raise where the file is not the one that its name tells of."""
    stated = DIGEST.search(path.name)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if stated and not found.startswith(stated[1]):
        raise DigestMismatch(
            f"{path} is not the file that its name tells of: its sha256 begins with {found[:8]}",
            fix="delete it and run the command again",
            field=path.name,
        )
