"""How much of each vector is used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Length:
    """How much of each vector is used: of the query, and of what is stored."""

    dimensions: int
    top_k: int | None = None
    tenth: bool = False  # store each vector's largest tenth, ask with all that the length leaves of the query

    def stored(self, width: int) -> int | None:
        """`top_k` of what is stored."""
        if not self.tenth:
            return self.top_k
        tenth = max(1, round(width / 10))
        return tenth if self.top_k is None else min(tenth, self.top_k)
