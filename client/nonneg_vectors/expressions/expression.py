"""What a query says, in one normal form, and the dimensions that it names, by number or by name.

Brackets, signs and weights are worked out by the parser, so that nothing behind it needs a tree.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nonneg_core.errors import ExpressionInvalid

BARE_NAME = re.compile(r'(?!["!&+*()\-])[^\s"()]+')  # what may stand without quotes behind `dim:` or as a photo
LOOKS_LIKE_ANOTHER = re.compile(r"(?:dim|photo):|[0-9.]+\s*\*|[0-9.]+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo by the name under which its vector or its bytes are given: a path, a URL."""

    name: str
    at: int = field(default=0, compare=False)  # the character at which it stands

    def __str__(self) -> str:
        plain = BARE_NAME.fullmatch(self.name) and not LOOKS_LIKE_ANOTHER.match(self.name) and not self.name.isalpha()
        return self.name if plain else f"photo:{_quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Words:
    """A text, of which the model makes a vector."""

    text: str
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return _quoted(self.text)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension by its number or its name."""

    name: str
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"dim:{self.name if BARE_NAME.fullmatch(self.name) else _quoted(self.name)}"


Leaf: TypeAlias = Photo | Words | Dimension


@dataclass(frozen=True, slots=True)
class Term:
    """A leaf and what it is worth; below zero it is subtracted."""

    weight: float
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class Expression:
    """Every part must be matched, as well as its worst one is; and nothing in `without` may be there."""

    parts: tuple[tuple[Term, ...], ...]
    without: tuple[Leaf, ...] = ()

    def leaves(self) -> Iterator[Leaf]:
        """Yield everything that stands for a vector or a dimension, in the order of the text."""
        for part in self.parts:
            for term in part:
                yield term.leaf
        yield from self.without

    def photos(self) -> list[Photo]:
        """Return the photos of the expression, each once."""
        return list(dict.fromkeys(leaf for leaf in self.leaves() if isinstance(leaf, Photo)))

    def words(self) -> list[Words]:
        """Return the texts of the expression, each once."""
        return list(dict.fromkeys(leaf for leaf in self.leaves() if isinstance(leaf, Words)))

    @property
    def only_words(self) -> bool:
        """Whether all that is looked for is texts."""
        return all(isinstance(term.leaf, Words) for part in self.parts for term in part)

    def __str__(self) -> str:
        """Write the expression in a form that `parse` reads as the same."""
        sums = " & ".join(_sum(part) for part in self.parts)
        return " ".join([sums, *(f"!{leaf}" for leaf in self.without)]).lstrip()


def _sum(terms: tuple[Term, ...]) -> str:
    text = ""
    for term in terms:
        sign = "-" if term.weight < 0 else "+" if text else ""
        text += f" {sign} " if text else sign
        worth = abs(term.weight)
        text += str(term.leaf) if worth == 1 else f"{worth:.12g}*{term.leaf}"
    return text


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


# A dimension by its number or its name, or the names that are near to one that is not there.

NEAR = 5  # names in a message


def dimension_of(leaf: Dimension, names: Mapping[int, str], dimensions: int) -> int:
    """Return a dimension's number; `names` has the dimensions with a name, `dimensions` is how many there are."""
    number = int(leaf.name) if leaf.name.isdecimal() else _by_name(leaf, names)
    if number >= dimensions:
        raise _refused(leaf, f"{leaf} is dimension {number}, and there are {dimensions}", f"use 0 to {dimensions - 1}")
    return number


def near(spelling: str, known: Iterable[str]) -> list[str]:
    """Return the known names that `spelling` is a word of, or a slip of one letter away from; at most five."""
    names = sorted(known, key=len)
    words = [name for name in names if name.count(" ") == 1 and spelling in name.split()]
    slips = [name for name in names if any(_slip(spelling, part) for part in _parts(name))]
    return list(dict.fromkeys([*words, *slips]))[:NEAR]


def _parts(name: str) -> set[str]:
    """Return a name, and its words where it has two: one word of a longer name says little of it."""
    return {name, *name.split()} if name.count(" ") == 1 else {name}


def _slip(one: str, other: str) -> bool:
    """Return whether a letter is missing, needless or another, or two letters are exchanged."""
    short, long = sorted((one, other), key=len)
    if one == other or len(long) - len(short) > 1 or len(short) < 3:
        return False
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[:at] + short[at : at + 2][::-1] + short[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped == long


def _by_name(leaf: Dimension, names: Mapping[int, str]) -> int:
    spelling = leaf.name.casefold()
    matches = [number for number, name in names.items() if name.casefold() == spelling]
    if len(matches) == 1:
        return matches[0]
    if matches:
        numbers = " or ".join(f"dim:{number}" for number in matches)
        raise _refused(leaf, f"{len(matches)} dimensions are called {leaf.name}", f"write {numbers}")
    if not names:
        raise _refused(leaf, f"no dimension is called {leaf.name}: none has a name here", "name it by its number")
    alike = near(spelling, (name.casefold() for name in names.values()))
    fix = f"did you mean {', '.join(alike)}?" if alike else 'name it by its number, or search for it as "words"'
    raise _refused(leaf, f"no dimension is called {leaf.name}", fix)


def _refused(leaf: Dimension, message: str, fix: str) -> ExpressionInvalid:
    return ExpressionInvalid(
        f"character {leaf.at + 1} of the expression: {message}",
        fix=fix, field=f"expression[{leaf.at}]", value=str(leaf),
    )  # fmt: skip
