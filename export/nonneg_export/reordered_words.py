"""Names and words of a bundle whose columns stand in another order: every entry goes where its column went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nonneg_runtime.bundle import Bundle
from nonneg_runtime.words.lexicon import LEXICON, Lexicon, lexicon_of
from nonneg_runtime.words.names import NAMES, Names, read_names

Places = dict[int, int]  # the new place of an old column; none for one that was left out


def carried_words(bundle: Bundle, order: Sequence[int], work: Path) -> dict[str, Any]:
    """Write the names and words of a bundle for columns in this order; return what the manifest says of them."""
    places = {old: new for new, old in enumerate(order)}
    found: dict[str, Any] = {}
    if record := bundle.manifest.names:
        names = moved_names(read_names(bundle.path / record.file, bundle.manifest.dimensions), places)
        names.write(work / NAMES)
        first = sum(name.dimension < 512 for name in names.names)
        checked = sum(name.precision is not None for name in names.names)
        found["names"] = record.model_copy(
            update={"file": NAMES, "named": len(names.names), "checked": checked, "first_512": first}
        )
    if (record_of_words := bundle.manifest.lexicon) and len(
        places
    ) == bundle.manifest.dimensions:  # words may need any column
        lexicon = lexicon_of(bundle)
        assert lexicon is not None
        moved_lexicon(lexicon, places).write(work / LEXICON)
        found["lexicon"] = record_of_words.model_copy(update={"file": LEXICON})
    return found


def moved_names(names: Names, places: Places) -> Names:
    """Return the names of the columns that are kept, in their new order."""
    moved = [
        name.model_copy(update={"dimension": places[name.dimension]})
        for name in names.names
        if name.dimension in places
    ]
    moved.sort(key=lambda name: name.dimension)
    return names.model_copy(update={"dimensions": len(places), "names": tuple(moved)})


def moved_lexicon(lexicon: Lexicon, places: Places) -> Lexicon:
    """Return the same words for columns that all have a new place."""
    classes = tuple(
        each.model_copy(update={"dimensions": tuple(places[dimension] for dimension in each.dimensions)})
        for each in lexicon.classes
    )
    return lexicon.model_copy(update={"classes": classes})
