"""Find which of ImageNet's classes a photo shows, or may show, by the name of its folder.

The name is a WordNet id (n02088364), or a category of a known data set (pets/beagle), for which data_set_classes.toml
says what its photos show.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Flags, Numbers
from research.models.naming import WNID

TABLE = Path(__file__).parent / "data_set_classes.toml"
WNIDS = Path(__file__).parent / "imagenet_wnids.txt"  # the classifier's classes, in its order
NONE = -1  # of ImageNet's classes
Kind = tuple[str | None, Sequence[str]]  # the wnid that it shows, those that it may show


@dataclass(frozen=True, eq=False)
class ShownClasses:
    """The class of each of the photos that count, and classes for which a photo counts neither way."""

    kept: Numbers  # which of the photos that were asked about count
    of: Numbers  # the class that each of these shows
    unclear: Flags  # (these, classes): the photo may show the class, too


def read_table() -> dict[str, dict[str, Kind]]:
    """Return what the categories of every known data set show, by the name of its folder."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        data: {
            category: (kinds["shows"].get(category), kinds["may_show"].get(category, ()))
            for category in kinds["shows"] | kinds["may_show"]
        }
        for data, kinds in table.items()
    }


def imagenet_classes() -> dict[str, int]:
    """Return the number of every class by its wnid."""
    return {wnid: number for number, wnid in enumerate(WNIDS.read_text(encoding="ascii").split())}


def shown_classes(paths: Sequence[Path]) -> ShownClasses:
    """Return the classes of those photos whose file, folder or data set and folder (pets/beagle/) tells them."""
    table, number = read_table(), imagenet_classes()
    kinds = [_kind(path, table, number) for path in paths]
    positions = [i for i, kind in enumerate(kinds) if kind is not None]
    known = [kind for kind in kinds if kind is not None]
    unclear = np.zeros((len(known), len(number)), dtype=np.bool_)
    for row, (_, maybe) in zip(unclear, known, strict=True):
        row[[number[wnid] for wnid in maybe]] = True
    of = [NONE if wnid is None else number[wnid] for wnid, _ in known]
    return ShownClasses(np.array(positions, dtype=np.int64), np.array(of, dtype=np.int64), unclear)


def _kind(path: Path, table: Mapping[str, Mapping[str, Kind]], number: Mapping[str, int]) -> Kind | None:
    wnid_match = WNID.match(path.name) or WNID.match(path.parent.name)
    if wnid_match is not None:
        return (wnid_match[0], ()) if wnid_match[0] in number else None
    return table.get(path.parent.parent.name, {}).get(path.parent.name)
