"""What all connections of a server share: the limits, the counts, and what the server is at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nonneg_server.http.context import Completed, Observer
    from nonneg_server.http.early_rejection import EarlyRejection


@dataclass(frozen=True)
class ConnectionLimits:
    """What a connection may take."""

    read_timeout: float = 15.0  # seconds without a byte, while a request is arriving
    receive_timeout: float = 120.0  # seconds a whole request may take to arrive
    connections: int = 4096
    bytes: int = 512 * 2**20  # of all bodies that are arriving or being worked on


@dataclass
class ConnectionState:
    """The limits and the present state."""

    limits: ConnectionLimits = ConnectionLimits()
    held: int = 0  # bytes of bodies that are arriving or being worked on, and of answers not taken yet
    open: int = 0  # connections
    handshakes: int = 0  # of TLS that are under way: not connections yet
    turned_away: Counter[str] = field(default_factory=Counter)  # requests the application never saw, by error
    loading: bool = False
    draining: bool = False
    early: EarlyRejection | None = None
    observers: Sequence[Observer] = ()  # of every request
    logs: Sequence[Observer] = ()  # of what was refused before its head was whole

    def report(self, completed: Completed) -> None:
        """Count and log a request that was refused by its connection."""
        for observe in self.observers if "path" in completed.scope else self.logs:
            observe(completed)
