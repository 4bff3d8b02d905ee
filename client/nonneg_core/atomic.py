"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nonneg_core.errors import StorageFailed


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its name when all went well, and vanishes when not."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb+") as file:  # a name must not outlive a power cut that its content did not
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def storage_error(path: Path, error: OSError) -> StorageFailed:
    """What an operating system's error means for a file that should be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFailed(f"no space left for {path}", fix="free some space and run again", value=str(path))
    return StorageFailed(
        f"{path} cannot be written ({error.strerror or error})", fix="choose another place", value=str(path)
    )
