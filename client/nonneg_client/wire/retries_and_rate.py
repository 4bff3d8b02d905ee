"""How fast to ask and when to ask again: decisions only, the clients do the waiting."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from nonneg_core.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    NonnegError,
    NotReady,
    Overloaded,
    RequestTimeout,
    ResponseInvalid,
)

LONGEST_DELAY = 8.0
LONGEST_RETRY_AFTER = 60.0

# Embedding changes nothing on the server, so that asking twice is safe; these errors may be gone next time.
PASSING = (ConnectionFailed, DeadlineExceeded, NotReady, Overloaded, RequestTimeout, ResponseInvalid)


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

    def delay(self, error: NonnegError) -> float | None:
        """Return how long to wait before asking again; None: give up. Jitter spreads clients that failed together."""
        if not isinstance(error, PASSING) or (error.field == "url" and not self.reached):
            return None
        overloaded = isinstance(error, Overloaded)
        if not overloaded and self.failures >= self.retries:
            return None
        tries = self.refusals if overloaded else self.failures
        wait: float = min(LONGEST_DELAY, self.retry_delay * 2 ** min(tries, 10)) * random.uniform(0.5, 1.0)
        if error.retry_after is not None:
            asked = min(error.retry_after, LONGEST_RETRY_AFTER)
            wait = asked + random.uniform(0, 0.1 + 0.1 * asked)
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
