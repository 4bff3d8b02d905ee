"""The names of a shipped model as a whole: everyday words beside the classes, and names for the other columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nonneg_core.shortening import unit
from nonneg_export.activations import Activations
from nonneg_export.names.common_names import common_name, read_table
from nonneg_export.names.naming import classes_of
from nonneg_export.names.observed_names import CHECKED, CLEAR, Observed, observed_names
from nonneg_runtime.manifest import NamesRecord
from nonneg_runtime.words.names import NAMES, Name, Names

PREFIX = 512
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
    found = [_common(name, words) for name in directions] + [_mostly(one, int(others[one.column])) for one in observed]
    return names.model_copy(
        update={
            "chosen_on": chosen_data,
            "unnamed": f"no class, and no everyday word for one, is shown by {CLEAR:.0%} of its strongest photos on "
            f"three sets of photos ({len(others) - len(observed)} of {len(others)} columns that lie along no class)",
            "names": tuple(sorted(found, key=lambda name: name.dimension)),
        }
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
