"""Where the server is and how to talk to it, from arguments and environment; how fast to ask and when to ask again."""

import os
import random
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from nonneg_core import errors

URL, API_KEY = "NONNEG_URL", "NONNEG_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"
LEAST = {"in_flight": 1, "batch_size": 1, "retries": 0, "retry_delay": 0, "overload_timeout": 0, "timeout": 0.001}


class Tuning(TypedDict, total=False):
    """How a client talks; every key may be left out."""

    timeout: float  # seconds for one answer: 60
    retries: int  # tries more after failures that may pass: 4
    retry_delay: float  # seconds before the first of them, doubled for each next one: 0.25
    overload_timeout: float  # seconds that one request may be refused for (429) before it fails: 120
    in_flight: int  # requests under way at once: 4
    batch_size: int  # images in a request: 16
    model: str  # of calls that name none: the server's default
    fingerprint: str  # of the only model that may answer, eight characters or more: any


@dataclass(frozen=True)
class ClientSettings:
    """What a client needs to know of its server; the rest is asked with each call."""

    url: str
    api_key: str | None
    timeout: float = 60.0
    retries: int = 4
    retry_delay: float = 0.25
    overload_timeout: float = 120.0
    in_flight: int = 4
    batch_size: int = 16  # few and larger requests: each costs the client half a millisecond
    model: str | None = None
    fingerprint: str | None = None

    def pinned(self, model: str | None) -> str | None:
        """Return the model to ask for, with the fingerprint that its server refuses to answer without."""
        name = model or self.model
        return name if self.fingerprint is None or "@" in (name or "") else f"{name or ''}@{self.fingerprint}"

    def headers(self) -> dict[str, str]:
        from nonneg_core.version import __version__

        fields = {"User-Agent": f"nonneg-python/{__version__}", "Accept": "application/json"}
        return fields | {"Authorization": f"Bearer {self.api_key}"} if self.api_key else fields


def settings(url: str | None, api_key: str | None, **tuning: Unpack[Tuning]) -> ClientSettings:
    """Return checked settings."""
    url = (url or os.environ.get(URL) or DEFAULT_URL).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise errors.ConfigInvalid(
            f"{url} is not the address of a server", fix=f"give one like {DEFAULT_URL}", field="url", value=url
        )
    key = api_key or os.environ.get(API_KEY) or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise errors.ConfigInvalid("the API key has characters that no header can carry", fix="check it for line ends")
    made = ClientSettings(url, key, **tuning)
    for name, least in LEAST.items():
        value = getattr(made, name)
        if value < least:
            raise errors.ConfigInvalid(f"{name}={value} is less than {least}", fix=f"give {least} or more", field=name)
    return made


# How fast to ask and when to ask again: decisions only, the clients do the waiting.

LONGEST_DELAY = 8.0
LONGEST_RETRY_AFTER = 60.0

# Embedding changes nothing on the server, so that asking twice is safe; these errors may be gone next time.
PASSING = (
    errors.ConnectionFailed,
    errors.DeadlineExceeded,
    errors.NotReady,
    errors.Overloaded,
    errors.RequestTimeout,
    errors.ResponseInvalid,
)


@dataclass
class RetryPolicy:
    """The tries of one request: at most `retries` after failures, `overload_timeout` seconds under overload."""

    retries: int
    overload_timeout: float
    retry_delay: float = 0.25  # seconds before the first of them; each next wait is twice as long
    reached: bool = True  # False: this address has never answered, so that waiting for it would be in vain
    failures: int = 0
    refusals: int = 0
    waited: float = 0.0

    def delay(self, error: errors.NonnegError) -> float | None:
        """Return how long to wait before asking again; None: give up. Jitter spreads clients that failed together."""
        if not isinstance(error, PASSING) or (error.field == "url" and not self.reached):
            return None
        overloaded = isinstance(error, errors.Overloaded)
        if not overloaded and self.failures >= self.retries:
            return None
        tries = self.refusals if overloaded else self.failures
        wait: float = min(LONGEST_DELAY, self.retry_delay * 2 ** min(tries, 10)) * random.uniform(0.5, 1.0)
        if error.retry_after is not None:
            pause = min(error.retry_after, LONGEST_RETRY_AFTER)
            wait = pause + random.uniform(0, 0.1 + 0.1 * pause)
        if overloaded and self.waited + wait > self.overload_timeout:
            return None
        self.refusals += overloaded
        self.failures += not overloaded
        self.waited += wait if overloaded else 0
        return wait


@dataclass
class RateController:
    """How many requests may be under way: one more after a round of successes, half as many when refused (AIMD)."""

    most: int
    allowed: float = field(init=False)

    def __post_init__(self) -> None:
        self.allowed = float(self.most)

    def succeeded(self) -> None:
        """Allow a little more: one request more after a round of successes."""
        self.allowed = min(float(self.most), self.allowed + 1 / self.allowed)

    def refused(self) -> None:
        """Allow half as many."""
        self.allowed = max(1.0, self.allowed / 2)

    @property
    def window(self) -> int:
        """Requests that may be under way."""
        return int(self.allowed)

    def ahead(self) -> int:
        """Count batches to begin besides the awaited one: twice the window, so that those behind a slow one go on."""
        return 2 * self.window - 1
