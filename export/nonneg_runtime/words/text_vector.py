"""Text to a vector, by the text tower and the names of classes that are in it; expressions to rows of their leaves."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nonneg_core.errors import LexiconMissing, ParameterInvalid
from nonneg_core.shortening import Vectors, unit
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.text_tower import MOST_CHARACTERS, MOST_TOKENS, SentenceTower, Tower, text_tower
from nonneg_runtime.words.column_facts import chance_of, names_of
from nonneg_runtime.words.lexicon import Lexicon, lexicon_of, spelled
from nonneg_vectors.expressions.expression import Expression, Leaf, Words
from nonneg_vectors.expressions.weightings import Meanings, Resolved, SparseRow, as_row, resolve

_GRAMMAR = "a an the of in on at to by from with and some my our your this that is are there"
_MEDIUM = "photo photos picture pictures image images photograph photographs"
SAYS_NOTHING = frozenset(f"{_GRAMMAR} {_MEDIUM}".split())
TOWER = 0.25  # of what it says of a text that is a name alone, beside the columns of the name
NAME = 0.5  # of the columns of a name within a sentence, beside what the tower says


def vector_of(bundle: Bundle, text: str, *, truncate: bool = False) -> Vectors:
    """Return a text's vector, (D,), of length one; `truncate`: read the beginning of one that is too long."""
    tower = text_tower(bundle)
    if tower is None:
        raise no_texts(bundle)
    return with_names(bundle, tower, text, tower.embed(text, truncate=truncate))


def no_texts(bundle: Bundle) -> LexiconMissing:
    """Return the error of a text for a model that takes images alone."""
    return LexiconMissing(
        f"{bundle.manifest.name} knows no words: it embeds images only",
        fix="send images, or take a model with a text tower, such as photo",
        field="model",
        value=bundle.manifest.name,
    )


def with_names(bundle: Bundle, tower: Tower, text: str, vector: Vectors) -> Vectors:
    """Return what a tower answered to a text, with the columns of the classes that it names, of length one."""
    lexicon = lexicon_of(bundle) if isinstance(tower, SentenceTower) else None
    if lexicon is None or not isinstance(tower, SentenceTower):
        return unit(vector)
    names = names_in(lexicon, text)
    if not names.known:
        return unit(vector)
    both = named_columns(lexicon, tower, names.known)
    return unit(both + TOWER * unit(vector)) if names.whole else unit(unit(vector) + NAME * both)


def named_columns(lexicon: Lexicon, tower: SentenceTower, words: Sequence[str]) -> Vectors:
    """Return the columns of known words and those that photos of these have beside them, of length one."""
    columns = unit(np.sum([lexicon.vector(word) for word in words], axis=0, dtype=np.float32))
    return unit(columns + unit(tower.beside(columns)))


class NamesInText(NamedTuple):
    """The known words of a text, and whether it says nothing else."""

    known: tuple[str, ...]
    whole: bool


def names_in(lexicon: Lexicon, text: str) -> NamesInText:
    """Return the known words of a text, the longest that begins at each place; in a sentence those of one class."""
    tokens = spelled(text[:MOST_CHARACTERS]).split()[:MOST_TOKENS]
    words, whole, at = list[str](), True, 0
    while at < len(tokens):
        length = next((n for n in range(lexicon.longest, 0, -1) if _known(lexicon, tokens[at : at + n], n)), 0)
        if length:
            words.append(_known(lexicon, tokens[at : at + length], length))
        whole = whole and (bool(length) or tokens[at] in SAYS_NOTHING)
        at += max(1, length)
    known = dict.fromkeys(word for word in words if whole or len(lexicon.members(word)) == 1)
    return NamesInText(tuple(known), whole)


def _known(lexicon: Lexicon, tokens: list[str], length: int) -> str:
    """Return the known word that these tokens are, as they stand or in the singular; empty if there is none."""
    if len(tokens) < length:
        return ""
    written = " ".join(tokens)
    if written in SAYS_NOTHING:
        return ""
    forms = (written, *singulars(written))
    return next((form for form in forms if form in lexicon.words), "")


def singulars(word: str) -> list[str]:
    """Return what a regular plural may be the plural of."""
    endings = (("ies", "y"), ("men", "man"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", ""))
    return [word[: -len(end)] + stem for end, stem in endings if word.endswith(end) and len(word) > len(end) + 1]


# An expression in a bundle's terms: its words by the model, its dimensions by the names, its photos as given.

Given = Mapping[Any, Vectors]  # of `Photo` and `Words`


def resolved(bundle: Bundle, expression: Expression, dimensions: int, given: Given) -> Resolved:
    """Weigh an expression's parts; `given`: vectors of that many dimensions, of its photos, perhaps its words."""
    rows: dict[Leaf, SparseRow] = {leaf: as_row(z) for leaf, z in given.items()}
    for words in expression.words():
        if words not in rows:
            rows[words] = as_row(vector_of_words(bundle, words)[:dimensions])
    return resolve(expression, Meanings(dimensions, names_of(bundle), rows, chance_of(bundle, dimensions)))


def vector_of_words(bundle: Bundle, words: Words) -> Vectors:
    """Return the whole vector of an expression's words; an error says where they stand."""
    try:
        return vector_of(bundle, words.text)
    except ParameterInvalid as error:
        error.field = f"expression[{words.at}]"
        raise
