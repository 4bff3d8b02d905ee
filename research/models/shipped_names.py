"""The names of a shipped model as a whole: everyday words beside the classes, and names for the other columns."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles
from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import unit
from nonneg_export.calibrate.activations import Activations
from nonneg_runtime.bundle.manifest import NamesRecord
from nonneg_runtime.words.names import NAMES, Name, Names
from research.models.naming import classes_of

PREFIX = 512
FROM_PHOTOS = "; of names from photos: "  # before what these were checked on
MOSTLY = "mostly "  # before what a column's strongest photos show: it lies along no class


def record_of_names(names: Names, data: str) -> NamesRecord:
    """Return what the manifest says of the names; `data`: the photos that their precision was measured on."""
    return NamesRecord(
        file=NAMES,
        named=len(names.names),
        checked=sum(name.precision is not None for name in names.names),
        data=data,
        first_512=sum(name.dimension < PREFIX for name in names.names),
    )


def completed(
    names: Names, chosen: Activations, checked: Activations, labels: Sequence[str], *, chosen_data: str
) -> Names:
    """Make names: everyday words for classes, and what most of their strongest photos show for columns along none."""
    table = read_table()
    wnids, words = sorted(table), [table[wnid] for wnid in sorted(table)]
    directions = [name for name in names.names if name.source == "direction"]
    others = np.setdiff1d(np.arange(names.dimensions), [name.dimension for name in directions])
    rows = [unit(np.array(each.values))[:, others] for each in (chosen, checked)]
    shown = [
        [[labels[k], *words[k]] if k >= 0 else [] for k in classes_of(each.paths, wnids)] for each in (chosen, checked)
    ]
    observed = observed_names(rows[0], shown[0], rows[1], shown[1])
    entries = [_common(name, words) for name in directions] + [
        _mostly(one, int(others[one.column])) for one in observed
    ]
    return names.model_copy(
        update={
            "chosen_on": chosen_data,
            "unnamed": _unnamed(len(others) - len(observed), len(others)),
            "names": tuple(sorted(entries, key=lambda name: name.dimension)),
        }
    )


def with_installed_words(names: Names, installed: Names, kept: int) -> Names:
    """Return names along classes with the everyday words and the names from photos of an installed model.

    kept: columns in front that are the installed model's: of names from photos, theirs stay.
    """
    common = {name.name: name.common for name in installed.names}
    entries = [name.model_copy(update={"common": common[name.name]}) for name in names.names]
    entries += [name for name in installed.names if name.source == "photos" and name.dimension < kept]
    others, shown = names.dimensions - len(names.names), len(entries) - len(names.names)
    return names.model_copy(
        update={
            "chosen_on": installed.chosen_on,
            "precision_on": names.precision_on + FROM_PHOTOS + installed.precision_on.rpartition(FROM_PHOTOS)[2],
            "unnamed": _unnamed(others - shown, others),
            "names": tuple(sorted(entries, key=lambda name: name.dimension)),
        }
    )


def _unnamed(without: int, others: int) -> str:
    return (
        f"no class, and no everyday word for one, is shown by {CLEAR:.0%} of its strongest photos on "
        f"three sets of photos ({without} of {others} columns that lie along no class)"
    )


def _common(name: Name, words: Sequence[Sequence[str]]) -> Name:
    common = "" if name.klass is None else common_name(name.name, words[name.klass])
    return name.model_copy(update={"common": common})


def _mostly(one: Observed, dimension: int) -> Name:
    return Name(
        dimension=dimension,
        name=MOSTLY + one.name,
        source="photos",
        precision=round(one.precision, 3),
        photos=max(one.photos, CHECKED),
    )


# Everyday words for ImageNet's classes: the nearest of WordNet's hypernyms that is one.
#
# `python -m research.models.shipped_names [FOLDER]` writes the table from WordNet 3.0's database files (Debian's
# package wordnet-base puts them into /usr/share/wordnet); a model is made from the table alone.

WORDNET = Path("/usr/share/wordnet")
TABLE = Path(__file__).parent / "shipped_models" / "everyday_words.json"
HYPERNYMS = ("@", "@i")  # WordNet's signs: of kinds and of instances
_WORDS = """
animal ant antelope ape bat bear bee beetle bird butterfly camel cat chicken coral cow crab crocodile deer dog
dragonfly duck eagle elephant fish fly fox frog goat goose grasshopper hawk horse insect jellyfish lion lizard lobster
monkey mouse otter owl parrot pig rabbit rat ray salamander scorpion seal shark sheep snail snake spider squirrel
tiger turtle weasel whale wolf worm bread cake drink food flower fruit mushroom plant sandwich soup tree vegetable
aircraft ball barrel basket beach bed bicycle blanket boat book boot bottle bowl box bridge bucket building bus
cabinet camera car chain chair church clock cloth clothing coat coast computer cup curtain door dress drum engine
fence furniture game glove guitar gun hammer hat horn jar knife lake lamp machine mask motorcycle mountain
musical_instrument oven pan paper person piano pot refrigerator rock roof rope rug screen sea shelf ship shoe shop
sign skirt sock sofa sport statue stove table telephone tool towel tower toy train truck vehicle wall weapon wheel
window
"""
EVERYDAY = frozenset(word.replace("_", " ") for word in _WORDS.split())
WRONG = {"n07871810": "bread"}  # a meat loaf is a loaf, and those are of bread
Synsets = dict[str, tuple[str, tuple[str, ...]]]  # wnid -> its first word, the wnids above it


def read_synsets(folder: Path) -> Synsets:
    """Read WordNet's nouns: `offset file kind n (word id)* n (sign offset kind source)* | gloss`, n hexadecimal."""
    path = folder / "data.noun"
    if not path.is_file():
        raise DataInvalid(
            f"{folder} lacks WordNet's data.noun",
            fix="install Debian's wordnet-base, or give the folder that holds WordNet 3.0's database files",
            value=str(folder),
        )
    synsets: Synsets = {}
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith(" "):  # the licence
            continue
        fields = line.partition("|")[0].split()
        pointers = fields[5 + 2 * int(fields[3], 16) :]
        above = tuple(
            f"n{offset}" for sign, offset in zip(pointers[::4], pointers[1::4], strict=False) if sign in HYPERNYMS
        )
        synsets[f"n{fields[0]}"] = (fields[4].replace("_", " "), above)
    return synsets


def everyday(synsets: Synsets, wnid: str) -> list[str]:
    """Return the everyday words for a synset, the nearest first: its own if it is one, then those of its hypernyms."""
    level, words = [wnid], []
    while level:
        words += [synsets[one][0] for one in level if synsets[one][0] in EVERYDAY]
        level = list(dict.fromkeys(above for one in level for above in synsets[one][1]))
    return [word for word in dict.fromkeys(words) if word != WRONG.get(wnid)]


def read_table() -> dict[str, list[str]]:
    """Return the everyday words for every class of ImageNet-1k, by wnid."""
    table: dict[str, list[str]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def common_name(label: str, words: Sequence[str]) -> str:
    """Return the nearest everyday word, unless the label says it already or there is none."""
    if not words or words[0] in label.casefold():
        return ""
    return words[0]


def write_table(folder: Path, wnids: Sequence[str]) -> None:
    """Write the table of these classes, one a line."""
    synsets = read_synsets(folder)
    lines = [f"{json.dumps(wnid)}: {json.dumps(everyday(synsets, wnid))}" for wnid in wnids]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# Names for columns that stand for none of the classes: what their strongest photos show.
#
# A name is chosen on some photos, where it must hold on both halves of them, and checked on others.

STRONGEST = 20  # photos of each half of those that choose a name
CHECKED = 10  # strongest photos of those that check it
CLEAR = 0.6  # share of a name among them, on all three
LIFT = 3  # and so many times its share of all photos: most photos show an animal, and that says nothing

AnyFloats = NDArray[np.floating]
Shown = Sequence[Sequence[str]]  # what each photo shows: its class and everyday words for it


@dataclass(frozen=True)
class Observed:
    """A column's name, and how many of its strongest photos show it among photos that did not choose it."""

    column: int
    name: str
    precision: float
    photos: int  # that show it, among those it was checked on


def observed_names(codes: AnyFloats, shown: Shown, checking: AnyFloats, shown_there: Shown) -> tuple[Observed, ...]:
    """Return the names that hold on both halves of the photos that choose them, and on the photos that check them.

    codes, checking: (photos, columns), rows of length one. Of several names that hold the one that is rarest among all
    photos is taken: a dog before an animal.
    """
    terms = sorted({term for words in shown for term in words})
    has, has_there = _members(shown, terms), _members(shown_there, terms)
    usual = np.maximum(has.mean(axis=0), has_there.mean(axis=0))  # (terms,)
    least = np.maximum(CLEAR, LIFT * usual)
    halves = [_shares(codes[i::2], has[i::2], STRONGEST) for i in (0, 1)]  # (columns, terms) each
    there = _shares(checking, has_there, CHECKED)
    holds = (halves[0] >= least) & (halves[1] >= least) & (there >= least)
    rarest = np.where(holds, usual, np.inf).argmin(axis=1)
    count = has_there.sum(axis=0)
    return tuple(
        Observed(int(j), terms[rarest[j]], float(there[j, rarest[j]]), int(count[rarest[j]]))
        for j in np.flatnonzero(holds.any(axis=1))
    )


def _members(shown: Shown, terms: Sequence[str]) -> Doubles:
    place = {term: i for i, term in enumerate(terms)}
    membership = np.zeros((len(shown), len(terms)))
    for photo, words in enumerate(shown):
        membership[photo, [place[word] for word in words if word in place]] = 1
    return membership


def _shares(codes: AnyFloats, has: Doubles, strongest: int) -> Doubles:
    """Return every term's share among each column's strongest photos; photos on which it is zero show nothing."""
    order = np.argsort(-codes, axis=0, kind="stable")[:strongest]  # (strongest, columns)
    active = np.take_along_axis(codes, order, axis=0) > 0
    shares: Doubles = np.einsum("sct,sc->ct", has[order], active) / strongest
    return shares


if __name__ == "__main__":
    write_table(Path(sys.argv[1]) if len(sys.argv) > 1 else WORDNET, sorted(read_table()))
