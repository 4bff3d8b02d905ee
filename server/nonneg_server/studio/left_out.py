"""What of a search lies beyond a length: terms that say nothing within so many dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nonneg_core.expressions.expression import Expression, Leaf, Term

NeedsOf = Callable[[Leaf], int | None]  # the least length at which a leaf says something; None: at none


class LeftOut(NamedTuple):
    """A leaf that a length leaves out, and the least length at which it counts; None where no length is known."""

    leaf: Leaf
    needs: int | None


@dataclass(frozen=True)
class Fitting:
    """What of an expression can be asked for at a length; `expression` is None where that is nothing."""

    expression: Expression | None
    left_out: tuple[LeftOut, ...]


def fitting(expression: Expression, dimensions: int, needs_of: NeedsOf) -> Fitting:
    """Leave out the terms that lie beyond a length, and the parts of which only what is subtracted would be left."""
    parts, left_out = [], []
    for part in expression.parts:
        needs = [needs_of(term.leaf) for term in part]
        within = [need is not None and need <= dimensions for need in needs]
        kept = tuple(term for term, there in zip(part, within, strict=True) if there)
        if _asks(kept) or kept == part:
            parts.append(kept)
            left_out += [LeftOut(t.leaf, n) for t, n, there in zip(part, needs, within, strict=True) if not there]
        else:
            left_out += [LeftOut(term.leaf, need) for term, need in zip(part, _counting(part, needs), strict=True)]
    return Fitting(Expression(tuple(parts)) if parts else None, tuple(dict.fromkeys(left_out)))


def _counting(part: Sequence[Term], needs: Sequence[int | None]) -> list[int | None]:
    """Return from which length on each term counts in a part that is left out: not before one that is looked for."""
    first = min((need for term, need in zip(part, needs, strict=True) if term.weight > 0 and need), default=None)
    return [None if need is None or first is None else max(need, first) for need in needs]


def _asks(part: Sequence[Term]) -> bool:
    return any(term.weight > 0 for term in part)
