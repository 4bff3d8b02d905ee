"""Text to a vector, by the text tower or the lexicon; expressions to rows of words, dimensions and photos.

The lexicon reads the longest words that it knows, one after the other; what it does not know is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from nonneg_core.errors import ExpressionInvalid, LexiconMissing, ParameterInvalid, WordsUnknown
from nonneg_core.shortening import Vectors, unit
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.text_tower import text_tower, too_long
from nonneg_runtime.words.column_facts import names_of
from nonneg_runtime.words.lexicon import Lexicon, lexicon_of, spelled
from nonneg_vectors.expressions.expression import NEAR, Expression, Leaf, Words, near
from nonneg_vectors.expressions.weightings import Meanings, Resolved, SparseRow, resolve

MOST_WORDS = 64
MOST_CHARACTERS = 4096
MISSPELT = 0.85  # likeness from which the rest of a text is taken for a known word
_GRAMMAR = "a an the of in on at to by from with and some my our your this that is are there"
_MEDIUM = "photo photos picture pictures image images photograph photographs"
SAYS_NOTHING = frozenset(f"{_GRAMMAR} {_MEDIUM}".split())
NEGATIONS = frozenset(["no", "not", "without", "except", "never"])


@dataclass(frozen=True)
class WordsOfText:
    """A text as words of the lexicon."""

    words: tuple[str, ...]
    vector: Vectors  # (D,), of length one


def vector_of(bundle: Bundle, text: str, *, truncate: bool = False, dimensions: int | None = None) -> WordsOfText:
    """Return a text's vector, of length one: what the text tower answers, or the sum of those of its words.

    truncate: read the beginning of a text that is too long, instead of refusing it. dimensions: how many the vector is
    cut to; WordsUnknown where nothing would be left.
    """
    tower = text_tower(bundle)
    if tower is not None:
        return WordsOfText((text,), unit(tower.embed(text, truncate=truncate)))
    lexicon = known_to(bundle)
    words = words_of(lexicon, text, truncate=truncate)
    vector = unit(np.sum([lexicon.vector(word) for word in words], axis=0, dtype=np.float32))
    if not vector[:dimensions].any():
        raise WordsUnknown(
            f"none of the first {dimensions} dimensions stands for {text!r}",
            fix=f"ask for all {len(vector)}: the first that does is dimension {int(np.flatnonzero(vector)[0])}",
            field="text",
            value=text[:200],
        )
    return WordsOfText(words, vector)


def unwanted(bundle: Bundle, text: str) -> list[int]:
    """Return the dimensions that must not be active where a text is unwanted: its classes' own columns."""
    if bundle.manifest.lexicon is None and bundle.manifest.text is not None:
        raise _stands_alone(text)
    lexicon = known_to(bundle)
    dimensions = sorted({dimension for word in words_of(lexicon, text) for dimension in lexicon.own(word)})
    if not dimensions:
        raise _stands_alone(text)
    return dimensions


def _stands_alone(text: str) -> WordsUnknown:
    return WordsUnknown(
        f"no dimension stands for {text!r} alone", fix=f'subtract it: - "{text}"', field="text", value=text[:200]
    )


def known_to(bundle: Bundle) -> Lexicon:
    """Return the lexicon of a model, which must have one."""
    lexicon = lexicon_of(bundle)
    if lexicon is None:
        raise LexiconMissing(
            f"{bundle.manifest.name} knows no words: it embeds images only",
            fix="send images, or take a model with a lexicon, such as photo",
            field="model",
            value=bundle.manifest.name,
        )
    return lexicon


def words_of(lexicon: Lexicon, text: str, *, truncate: bool = False) -> tuple[str, ...]:
    """Return the known words of a text, the longest that begins at each place; raises where one is not known."""
    tokens = spelled(text[:MOST_CHARACTERS]).split(" ") if truncate else spelled(_checked(text)).split(" ")
    if len(tokens) > MOST_WORDS and not truncate:
        raise too_long(f"{len(tokens)} words", len(tokens), MOST_WORDS)
    tokens = tokens[:MOST_WORDS]
    words, at = [], 0
    while at < len(tokens):
        length = next((n for n in range(lexicon.longest, 0, -1) if _known(lexicon, tokens[at : at + n], n)), 0)
        if length:
            words.append(_known(lexicon, tokens[at : at + length], length))
        elif tokens[at] not in SAYS_NOTHING:
            raise _unknown(lexicon, tokens[at:])
        at += max(1, length)
    if not words:
        raise WordsUnknown(
            "the text holds no word that can be seen", fix="name what is to be seen: a dog", field="text"
        )
    return tuple(words)


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


def _checked(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise too_long(f"{len(text)} characters", len(text), MOST_CHARACTERS)
    if not text.strip():
        raise ParameterInvalid("the text is empty", fix="name what is to be seen: a dog", field="text", value="")
    return text


def _unknown(lexicon: Lexicon, tokens: list[str]) -> WordsUnknown:
    """Return the error of a text whose rest begins with a word that is not known."""
    word = tokens[0]
    hints = _hints(lexicon, tokens) or _misspelt(lexicon, tokens)
    last = next((n for n in range(min(lexicon.longest, len(tokens) - 1), 0, -1) if _known(lexicon, tokens[-n:], n)), 0)
    alone = f'"{_known(lexicon, tokens[-last:], last)}" alone is known' if last else ""
    if word in NEGATIONS:
        fix = 'say what must not be there in an expression: "dog" !"cat"'
    elif hints or alone:
        fix = "; ".join(part for part in (f"nearest known words: {', '.join(hints)}" if hints else "", alone) if part)
    else:
        alike = _alike(lexicon, word)
        fix = f"nearest known words: {', '.join(alike)}" if alike else "take another word, or search by a photo"
    return WordsUnknown(f"the model knows no word {word!r}", fix=fix, field="text", value=word[:200])


def _hints(lexicon: Lexicon, tokens: list[str]) -> list[str]:
    """Return the known words for what these, or what they are the plurals of, stand for."""
    forms = [form for token in tokens for form in (token, *singulars(token)) if form not in lexicon.words]
    return [hint for form in forms for hint in HINTS.get(form, ()) if hint in lexicon.words]


def _misspelt(lexicon: Lexicon, tokens: list[str]) -> list[str]:
    """Return the known words that several tokens together are nearly spelt as."""
    return get_close_matches(" ".join(tokens), lexicon.words, NEAR, MISSPELT) if tokens[1:] else []


def _alike(lexicon: Lexicon, word: str) -> list[str]:
    """Return the known words spelt most like this one, as it stands or in the singular."""
    return next((alike for form in (word, *singulars(word)) if (alike := near(form, lexicon.words))), [])


# Common words that no lexicon of ImageNet's classes has, and the known words that find such photos most nearly.

HINTS: dict[str, tuple[str, ...]] = {
    "airport": ("airliner",),
    "baby": ("crib", "diaper"),
    "bathroom": ("bathtub", "toilet", "washbasin"),
    "beach": ("seashore", "sandbar"),
    "bedroom": ("bedroom furniture", "quilt"),
    "beer": ("beer glass", "beer bottle"),
    "book": ("bookcase", "comic book"),
    "boy": ("person",),
    "cake": ("dessert",),
    "chicken": ("hen", "rooster"),
    "child": ("person",),
    "cow": ("ox", "water buffalo"),
    "fire": ("fire engine", "stove"),
    "flag": ("flagpole",),
    "football": ("football helmet", "soccer ball"),
    "garden": ("flowerpot", "greenhouse", "patio"),
    "girl": ("person",),
    "harbor": ("dock", "breakwater"),
    "harbour": ("dock", "breakwater"),
    "hill": ("alp", "valley"),
    "kitchen": ("stove", "refrigerator", "microwave"),
    "kitten": ("cat",),
    "lake": ("lakeside",),
    "lorry": ("trailer truck", "truck"),
    "man": ("person",),
    "ocean": ("seashore", "coral reef"),
    "office": ("desk", "computer"),
    "people": ("person",),
    "puppy": ("dog",),
    "rain": ("umbrella",),
    "river": ("lakeside", "dam"),
    "road": ("street sign", "traffic light"),
    "rose": ("flower",),
    "sea": ("seashore", "coral reef"),
    "snow": ("alp", "ski", "snowmobile"),
    "street": ("street sign", "traffic light", "streetcar"),
    "tea": ("teapot",),
    "temple": ("stupa", "mosque"),
    "wedding": ("bridegroom",),
    "woman": ("person",),
    "yacht": ("sailboat", "yawl"),
}


# An expression in a bundle's terms: its words by the model, its dimensions by the names, its photos as given.

Given = Mapping[Any, Vectors]  # of `Photo` and `Words`


def resolved(bundle: Bundle, expression: Expression, dimensions: int, given: Given) -> Resolved:
    """Weigh an expression's parts; `given`: vectors of that many dimensions, of its photos, perhaps its words."""
    rows: dict[Leaf, SparseRow] = {leaf: as_row(z) for leaf, z in given.items()}
    for words in expression.searched():
        row = rows.get(words) or as_row(vector_of_words(bundle, words)[:dimensions])
        rows[words] = _within(words, row, dimensions)
    without = {leaf: _unwanted(bundle, leaf, dimensions) for leaf in expression.without if isinstance(leaf, Words)}
    return resolve(expression, Meanings(dimensions, names_of(bundle), rows, without))


def vector_of_words(bundle: Bundle, words: Words) -> Vectors:
    """Return the whole vector of an expression's words; the error of unknown ones says where they stand."""
    try:
        return vector_of(bundle, words.text).vector
    except ParameterInvalid as error:
        raise _placed(error, words) from None


def _within(words: Words, row: SparseRow, dimensions: int) -> SparseRow:
    """Return what words stand for, some of which must lie within the dimensions."""
    if not len(row[0]):
        raise ExpressionInvalid(
            f"character {words.at + 1} of the expression: nothing of {words} lies within {dimensions} dimensions",
            fix="ask vectors of the model's full length",
            field=f"expression[{words.at}]",
            value=words.text[:200],
        )
    return row


def _unwanted(bundle: Bundle, words: Words, dimensions: int) -> list[int]:
    """Return the dimensions that must not be active, all of which must lie within the length."""
    try:
        exclusions = unwanted(bundle, words.text)
    except ParameterInvalid as error:
        raise _placed(error, words) from None
    beyond = sum(dimension >= dimensions for dimension in exclusions)
    if beyond:
        raise ExpressionInvalid(
            f"character {words.at + 1} of the expression: {beyond} of the {len(exclusions)} dimensions that stand for "
            f"{words} lie beyond {dimensions} dimensions: !{words} cannot be told there",
            fix=f"take vectors of at least {max(exclusions) + 1} dimensions",
            field=f"expression[{words.at}]",
            value=words.text[:200],
            limit=dimensions,
        )
    return exclusions


def _placed(error: ParameterInvalid, words: Words) -> ParameterInvalid:
    """Return the error with the place of the words in the expression."""
    error.field = f"expression[{words.at}]"
    return error


def as_row(z: Vectors) -> SparseRow:
    """Return the entries of a vector that are not zero."""
    there = np.flatnonzero(z).astype(np.int32)
    return there, np.asarray(z[there], dtype=np.float32)
