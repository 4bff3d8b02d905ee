"""Names for columns that lie along no class: what the captions of their strongest photos say.

A map of sentences proposes: the words whose predicted features stand out in a column. Captioned photos that the map was
fitted on choose among these, and join words that say one thing. Other photos, which chose nothing, check the names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nonneg_core.arrays import Doubles, Flags, Floats, Numbers
from nonneg_runtime.heads.head import Head
from nonneg_runtime.inference.text_tower import SentenceEncoder, SentenceMap
from nonneg_runtime.words.names import Name, Names
from nonneg_runtime.words.text_vector import singulars
from nonneg_vectors.expressions.weightings import Chance
from research.models.lexicon_check import photos_by_word
from research.models.shipped_names import with_common_words

CAPTIONED = "; of names from captions: "  # before what these were checked on
PROPOSED = 12  # words of a column
COMMON = 25  # photos that choose, whose captions say a word: rarer words are not proposed
STRONGEST, CHECKED = 40, 10  # photos of a column: of those that choose, and of those that check
CLEAR, LIFT = 0.6, 3  # a name's share among them, and so many times its share of all
PART, JOINED = 0.15, 3  # share from which on a word may be joined, and how many words at most
TRUE, FEWEST = 0.85, 10  # of the photos that choose: so many say the name from its level on, and so many there are
_SAYS_NOTHING = """
about across adult after against air all along and another are around away back background be behind being between big
black blue boy boys brown bunch child children couple doing dressed each edge for four from front get girl girls going
green group guy has have he her him himself his holding holds in inside into is it its jumping kid kids lady large
little look looking looks lot man many men middle near next not of off older on one onto orange other others out outside
over people person pink play playing plays posing purple ready red riding running several she side sit sits sitting
small some something stand standing stands tan taking that the their them there they this three through top toward
towards two under up walk walking walks watch watches watching wearing where which while white who with woman women
yellow young
"""
SAYS_NOTHING = frozenset(_SAYS_NOTHING.split())


@dataclass(frozen=True, eq=False)
class Said:
    """Which photos say which words: (photos, words), and which photos choose names."""

    words: tuple[str, ...]
    says: Flags
    choosing: Numbers
    checking: Numbers


def said_in(captions: Sequence[Sequence[str]], choosing: Numbers) -> Said:
    """Return the words that may name something, of enough of the photos that choose."""
    photos = np.arange(len(captions))
    by_word = {
        word: np.isin(photos, there)
        for word, there in photos_by_word(captions).items()
        if " " not in word and len(word) > 2 and word not in SAYS_NOTHING
    }
    by_word = {word: says for word, says in by_word.items() if not by_word.keys() & set(singulars(word))}
    words = tuple(sorted(word for word, says in by_word.items() if says[choosing].sum() >= COMMON))
    says = np.stack([by_word[word] for word in words], axis=1)
    return Said(words, says, choosing, np.setdiff1d(photos, choosing))


def proposals(words: Sequence[str], made: SentenceMap, head: Head) -> Numbers:
    """Return the words that stand out most in each column, (columns, PROPOSED), by number."""
    encoder = SentenceEncoder()
    directions = np.stack([made.direction(encoder.run(encoder.tokenizer.rows([word]))) for word in words])
    answers = directions @ head.weight  # (words, columns)
    standard = (answers - answers.mean(axis=0)) / answers.std(axis=0)
    return np.asarray(np.argsort(-standard, axis=0, kind="stable")[:PROPOSED].T)


def observed(z: Floats, said: Said, proposed: Mapping[int, Numbers], chance: Chance) -> tuple[Name, ...]:
    """Return names for columns, no name twice: the first column that has it gets it.

    z: (photos, columns), rows of length one. proposed: words by column.
    """
    names: dict[str, Name] = {}
    for column in sorted(proposed):
        words = _joined(z[:, column], said, proposed[column])
        if words is None:
            continue
        says = np.asarray(said.says[:, words].any(axis=1))
        strongest = _strongest(z[:, column], said.checking, CHECKED)
        share, usual = says[strongest].mean(), says[said.checking].mean()
        name = said.words[max(words, key=lambda word: int(said.says[said.choosing, word].sum()))]
        if share >= max(CLEAR, LIFT * usual) and name not in names:
            names[name] = Name(
                dimension=column,
                name=name,
                source="captions",
                precision=round(float(share), 3),
                photos=int(says[said.checking].sum()),
                level=round(_level(z[said.choosing, column], says[said.choosing], column, chance), 2),
            )
    return tuple(names.values())


def _joined(values: Floats, said: Said, proposed: Numbers) -> list[int] | None:
    """Return the fewest of the words, the most frequent first, that a column's strongest photos say often enough."""
    strongest = _strongest(values, said.choosing, STRONGEST)
    shares = said.says[strongest][:, proposed].mean(axis=0)
    order = [int(proposed[i]) for i in np.argsort(-shares, kind="stable") if shares[i] >= PART][:JOINED]
    for count in range(1, len(order) + 1):
        says = np.asarray(said.says[:, order[:count]].any(axis=1))
        if says[strongest].mean() >= max(CLEAR, LIFT * says[said.choosing].mean()):
            return order[:count]
    return None


def _level(values: Floats, says: Flags, column: int, chance: Chance) -> float:
    """Return from how many deviations on the photos say it; where too few do, the largest that any photo has."""
    deviations: Doubles = (values - chance.mean[column]) / chance.deviations[column]
    order = np.argsort(-deviations, kind="stable")
    right = np.cumsum(says[order]) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(right[FEWEST - 1 :] >= TRUE) + FEWEST - 1
    return float(deviations[order[enough[-1]]]) if len(enough) else float(deviations.max())


def _strongest(values: Floats, photos: Numbers, count: int) -> Numbers:
    return np.asarray(photos[np.argsort(-values[photos], kind="stable")[:count]])


def with_observed(names: Names, observed_names: Sequence[Name], *, chosen: str, checked: str) -> Names:
    """Return the names along classes, and with them those from captions."""
    along = [name for name in with_common_words(names).names if name.klass is not None]
    others = names.dimensions - len(along)
    return names.model_copy(
        update={
            "chosen_on": chosen,
            "precision_on": names.precision_on.partition("; of names from ")[0] + CAPTIONED + checked,
            "unnamed": f"no word is said of {CLEAR:.0%} of its strongest photos, among photos that chose no word "
            f"({others - len(observed_names)} of {others} columns that lie along no class)",
            "names": tuple(sorted([*along, *observed_names], key=lambda name: name.dimension)),
        }
    )
