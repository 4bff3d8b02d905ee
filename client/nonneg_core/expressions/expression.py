"""What a query says, in one normal form: sums that must all be matched, and what a hit must not have.

Brackets, signs and weights are worked out by the parser, so that nothing behind it needs a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

BARE_NAME = re.compile(r'(?!["!&+*()\-])[^\s"()]+')  # what may stand without quotes behind `dim:` or as a photo
LOOKS_LIKE_ANOTHER = re.compile(r"(?:dim|photo):|[0-9.]+\s*\*|[0-9.]+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo by the name under which its vector or its bytes are given: a path, a URL."""

    name: str
    at: int = field(default=0, compare=False)  # the character at which it stands

    def __str__(self) -> str:
        plain = BARE_NAME.fullmatch(self.name) and not LOOKS_LIKE_ANOTHER.match(self.name)
        return self.name if plain else f"photo:{_quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Words:
    """A text, to be found in the model's lexicon."""

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

    def searched(self) -> list[Words]:
        """Return the texts that are looked for, each once; not those that must not be there."""
        return list(dict.fromkeys(t.leaf for part in self.parts for t in part if isinstance(t.leaf, Words)))

    def __str__(self) -> str:
        """Write the expression in a form that `parse` reads as the same."""
        sums = " & ".join(_sum(part) for part in self.parts)
        return " ".join([sums, *(f"!{leaf}" for leaf in self.without)])


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
