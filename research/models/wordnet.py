"""WordNet's nouns, read from its own database files: synonyms, hypernyms, senses in the order of their frequency.

The files are those of Princeton's WordNet 3.0 (Debian's package wordnet-base puts them into /usr/share/wordnet). An
ImageNet class is a synset of that version: n02099601 is the one at 02099601 of data.noun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nonneg_core.errors import DataInvalid

PLACE = Path("/usr/share/wordnet")
HYPERNYMS = ("@", "@i")  # of kinds and of instances


@dataclass(frozen=True)
class Synset:
    """A sense: the words that share it, and the synsets above it."""

    kind: str  # the lexicographers' file: 05 is animals, 06 artifacts, 13 food
    words: tuple[str, ...]
    above: tuple[str, ...]


@dataclass(frozen=True)
class WordNet:
    """Nouns by their synsets, and the synsets of every noun."""

    synsets: Mapping[str, Synset]  # by wnid
    senses: Mapping[str, tuple[str, ...]]  # of a word, the most frequent first
    irregular: Mapping[str, str]  # plural -> singular

    def above(self, wnid: str) -> set[str]:
        """Return all hypernyms of a synset, near and far."""
        hypernyms: set[str] = set()
        waiting = list(self.synsets[wnid].above)
        while waiting:
            one = waiting.pop()
            if one not in hypernyms:
                hypernyms.add(one)
                waiting += self.synsets[one].above
        return hypernyms


def read_wordnet(place: Path = PLACE) -> WordNet:
    """Return the nouns of the database in a folder."""
    for name in ("data.noun", "index.noun", "noun.exc"):
        if not (place / name).is_file():
            raise DataInvalid(
                f"{place} lacks WordNet's {name}",
                fix="install Debian's wordnet-base, or give the folder that holds WordNet 3.0's database files",
                value=str(place),
            )
    senses = dict(_sense(line) for line in _lines(place / "index.noun"))
    irregular = dict(_pair(line) for line in (place / "noun.exc").read_text(encoding="ascii").splitlines())
    return WordNet(dict(_synset(line) for line in _lines(place / "data.noun")), senses, irregular)


def plain(word: str) -> str:
    """Return a word as it is typed: lower case, with spaces."""
    return word.partition("(")[0].replace("_", " ").lower()


def _lines(path: Path) -> Iterator[str]:
    """Return the lines behind the licence, whose lines begin with spaces."""
    return (line for line in path.read_text(encoding="ascii").splitlines() if not line.startswith(" "))


def _synset(line: str) -> tuple[str, Synset]:
    """Read `offset file kind n (word id)* n (pointer offset kind source)* | gloss`, the first n in hexadecimal."""
    fields = line.partition("|")[0].split()
    count = int(fields[3], 16)
    words = tuple(plain(word) for word in fields[4 : 4 + 2 * count : 2])
    rest = fields[5 + 2 * count :]
    above = tuple(f"n{offset}" for sign, offset in zip(rest[::4], rest[1::4], strict=False) if sign in HYPERNYMS)
    return f"n{fields[0]}", Synset(fields[1], words, above)


def _sense(line: str) -> tuple[str, tuple[str, ...]]:
    """Read `word kind senses pointers pointer* senses tagged offset*`."""
    fields = line.split()
    return plain(fields[0]), tuple(f"n{offset}" for offset in fields[-int(fields[2]) :])


def _pair(line: str) -> tuple[str, str]:
    irregular, regular = line.split()[:2]
    return plain(irregular), plain(regular)
