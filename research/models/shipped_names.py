"""What a shipped model's manifest says of its names, and everyday words beside the names of classes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nonneg_core.errors import DataInvalid
from nonneg_runtime.bundle.manifest import NamesRecord
from nonneg_runtime.words.names import NAMES, Name, Names

PREFIX = 512
ONCE = {"n02963159": "cardigan", "n02113186": "Cardigan Welsh corgi"}  # two classes of one label


def record_of_names(names: Names, data: str) -> NamesRecord:
    """Return what the manifest says of the names; `data`: the photos that their precision was measured on."""
    return NamesRecord(
        file=NAMES,
        named=len(names.names),
        checked=sum(name.precision is not None for name in names.names),
        data=data,
        first_512=sum(name.dimension < PREFIX for name in names.names),
    )


def with_common_words(names: Names) -> Names:
    """Return the names along classes with everyday words beside them."""
    table = read_table()
    wnids = sorted(table)
    return names.model_copy(update={"names": tuple(_common(name, wnids, table) for name in names.names)})


def _common(name: Name, wnids: Sequence[str], table: Mapping[str, Sequence[str]]) -> Name:
    if name.klass is None:
        return name
    called = ONCE.get(wnids[name.klass], name.name)
    return name.model_copy(update={"name": called, "common": common_name(called, table[wnids[name.klass]])})


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


if __name__ == "__main__":
    write_table(Path(sys.argv[1]) if len(sys.argv) > 1 else WORDNET, sorted(read_table()))
