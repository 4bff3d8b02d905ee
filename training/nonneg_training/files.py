"""Writing a file whole or not at all: the previous one survives a full disk and a killed process."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from nonneg_client.errors import StorageFailed


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then give it that name."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except Exception as error:
        failed = storage_failed(error, path)
        if failed is None:
            raise
        raise failed from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def storage_failed(error: Exception, path: Path) -> StorageFailed | None:
    """What the disk said, as ours; None when it was not the disk."""
    text = str(error)
    if (
        getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        or "No space left" in text
        or "os error 28" in text
    ):
        return StorageFailed(
            f"no space left for {path}; what was there before is untouched",
            fix="free some space and run again with --resume",
            value=str(path),
        )
    # safetensors wraps the operating system's error in its own class and keeps only the text
    if isinstance(error, OSError) or "os error" in text:
        reason = getattr(error, "strerror", None) or text
        return StorageFailed(f"{path} cannot be written ({reason})", fix="choose another place", value=str(path))
    return None
