"""A dimension as every answer names it: its number, its name, and how an expression says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.expressions.expression import Dimension


class Cards:
    """The dimensions of one model."""

    def __init__(self, names: Mapping[int, str], dimensions: int) -> None:
        self.names = names
        self.named: NDArray[np.bool_] = np.isin(np.arange(dimensions), list(names))
        self._having = Counter(name.casefold() for name in names.values())

    def __call__(self, j: int) -> dict[str, Any]:
        """Return one dimension in a list of others."""
        return {"dimension": j, "name": self.names.get(j), "term": self.term(j)}

    def term(self, j: int) -> str:
        """Return a dimension as an expression says it: by its name where one dimension alone has it."""
        name = self.names.get(j)
        if name is None or name.isdecimal() or self._having[name.casefold()] > 1:
            return f"dim:{j}"
        return str(Dimension(name))
