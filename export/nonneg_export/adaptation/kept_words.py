"""Names and words that stay true of an adapted head: those of the columns that it keeps."""

from __future__ import annotations

from nonneg_runtime.words.lexicon import Lexicon
from nonneg_runtime.words.names import Names

UNNAMED = "columns computed for other photos have no names of their own: `nonneg atlas` shows what they show in them"


def first_kept(names: Names) -> int:
    """Return the first of the columns at the end that lie along a class and are kept."""
    return min((name.dimension for name in names.names if name.source == "direction"), default=names.dimensions)


def kept_names(names: Names) -> Names:
    """Return the names of the columns that are kept."""
    begin = first_kept(names)
    kept = tuple(name for name in names.names if name.dimension >= begin)
    return names.model_copy(update={"names": kept, "unnamed": UNNAMED, "chosen_on": ""})


def kept_lexicon(lexicon: Lexicon, begin: int) -> Lexicon:
    """Return the words of classes that stand for kept columns alone."""
    kept = [number for number, held in enumerate(lexicon.classes) if min(held.dimensions) >= begin]
    place = {number: i for i, number in enumerate(kept)}
    groups: dict[tuple[int, ...], int] = {}
    words: dict[str, int] = {}
    for word in lexicon.words:
        members = tuple(place[number] for number in lexicon.members(word) if number in place)
        if len(members) == 1:
            words[word] = members[0]
        elif members:
            words[word] = len(kept) + groups.setdefault(members, len(groups))
    classes = tuple(lexicon.classes[number] for number in kept)
    return lexicon.model_copy(update={"classes": classes, "groups": tuple(groups), "words": words})
