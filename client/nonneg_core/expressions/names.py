"""A dimension by its number or its name, or the names that are near to one that is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from nonneg_core.errors import ExpressionInvalid
from nonneg_core.expressions.expression import Dimension

NEAR = 5  # names in a message


def dimension_of(leaf: Dimension, names: Mapping[int, str], dimensions: int) -> int:
    """Return a dimension's number; `names` has the dimensions with a name, `dimensions` is how many there are."""
    number = int(leaf.name) if leaf.name.isdecimal() else _by_name(leaf, names)
    if number >= dimensions:
        raise _refused(leaf, f"{leaf} is dimension {number}, and there are {dimensions}", f"use 0 to {dimensions - 1}")
    return number


def near(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the known names that hold `wanted` or are spelt like it; of names of two words also one of them."""
    names, parts = list(known), dict[str, str]()
    for name in names:
        for part in name.split() if name.count(" ") == 1 else ():  # one word of a longer name says little of it
            if part[:1] == wanted[:1]:
                parts.setdefault(part, name)
    equal = [name for name in names if name.count(" ") == 1 and wanted in name.split()]
    whole = get_close_matches(wanted, [name for name in names if name[:1] == wanted[:1]], NEAR, 0.6)
    in_part = [parts[part] for part in get_close_matches(wanted, parts, NEAR, 0.8)]
    holding = sorted((name for name in names if wanted in name and name.count(" ") < 2), key=len)
    return list(dict.fromkeys([*equal, *whole, *in_part, *holding]))[:NEAR]


def _by_name(leaf: Dimension, names: Mapping[int, str]) -> int:
    wanted = leaf.name.casefold()
    found = [number for number, name in names.items() if name.casefold() == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = " or ".join(f"dim:{number}" for number in found)
        raise _refused(leaf, f"{len(found)} dimensions are called {leaf.name}", f"write {numbers}")
    if not names:
        raise _refused(leaf, f"no dimension is called {leaf.name}: none has a name here", "name it by its number")
    alike = near(wanted, (name.casefold() for name in names.values()))
    fix = f"did you mean {', '.join(alike)}?" if alike else 'name it by its number, or search for it as "words"'
    raise _refused(leaf, f"no dimension is called {leaf.name}", fix)


def _refused(leaf: Dimension, message: str, fix: str) -> ExpressionInvalid:
    return ExpressionInvalid(
        f"character {leaf.at + 1} of the expression: {message}",
        fix=fix, field=f"expression[{leaf.at}]", value=str(leaf),
    )  # fmt: skip
