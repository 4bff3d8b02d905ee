"""How many files this process may open: each connection is one."""

from __future__ import annotations

from nonneg_core.errors import ConfigInvalid

FEWEST = 160  # a server with fewer would have none left for connections


def enough(files: int) -> int:
    """Return this many open files, unless so few leave nothing for connections."""
    if files < FEWEST:
        raise ConfigInvalid(
            f"this process may open {files} files, a server needs {FEWEST} or more",
            fix="raise the limit: ulimit -n 1024, or LimitNOFILE= of systemd",
            field="open files",
            value=files,
            limit=FEWEST,
        )
    return files


def open_files() -> int:
    """Return how many files this process may open, after asking for all that it may ask for."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 8192
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
