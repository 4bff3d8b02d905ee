"""What huggingface_hub says in many classes, in the errors that all of nonneg raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nonneg_core.errors import ConnectionFailed, NonnegError, NotFound, Unauthorized
from nonneg_core.installing import needing

LOG_IN = "check the name, and log in with `hf auth login` or set HF_TOKEN"


def hub() -> Any:
    """Return the library, or the extra that brings it."""
    with needing("hf:", extra="hub"):
        import huggingface_hub
    return huggingface_hub


@contextmanager
def reached(target: str, what: str = "bundle") -> Iterator[None]:
    """Turn the library's errors into ours; `what` is looked for there."""
    try:
        yield
    except NonnegError:
        raise
    except Exception as error:
        found = _ours(target, what, error)
        if found is None:
            raise
        raise found from error


def _ours(target: str, what: str, error: Exception) -> NonnegError | None:
    from huggingface_hub import errors

    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    # The library's HTTP client has changed between versions; its errors are known by their home.
    transport = type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "requests")
    if isinstance(error, (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)):
        return ConnectionFailed(
            f"{target} cannot be reached and is not in the cache ({first})",
            fix="check the network, HF_HUB_OFFLINE and HF_HOME; fetch it once where there is a network",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return NotFound(f"{target} has no such revision ({first})", fix="name a branch, a tag or a commit that it has")
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return NotFound(f"{target} holds no {what} ({first})", fix="check the name")
    missing = isinstance(error, errors.RepositoryNotFoundError)  # to those without a token a private one is missing
    if isinstance(error, errors.GatedRepoError) or (_status(error) in (401, 403) and not missing):
        return Unauthorized(f"{target} is not open to you ({first})", fix="ask for access on its page; " + LOG_IN)
    if isinstance(error, errors.HfHubHTTPError):
        return NotFound(f"{target}: {first}", fix=LOG_IN)
    if transport or isinstance(error, OSError):
        return ConnectionFailed(f"{target} cannot be reached ({first})", fix="check the network and HF_ENDPOINT")
    return None


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
