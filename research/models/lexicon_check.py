"""Which words of a lexicon stand for what people call so: the others are left to the sentence tower.

A word that captions say is kept where its columns find the photos of these captions at least half as well as the tower
does. Another single word of one class is kept where it is the class's own name, or lies near to that name for the
sentence encoder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors, unit
from nonneg_runtime.inference.text_tower import SentenceEncoder, SentenceTower
from nonneg_runtime.words.lexicon import Lexicon, spelled
from nonneg_runtime.words.text_vector import named_columns, singulars

FEWEST = 10  # photos whose captions say a word, for them to be evidence
AS_GOOD = 0.5  # of the tower's average precision
NEAREST = 5  # class names, of 1,000
_WIDER = """
area bases bedding berry bike bob brakes brush canopy cell comfort cosmetic cream dandy disguise dolphin drapery essence
eyeglasses figure glasses grain grill hood hopper institution jack jar jock kernel landing level lining magazine medium
meter mice mill mini mixture mouse panther patch person pipe planer platform player post potentiometer potty publication
reflector ride rod rook shade shelter signaling signboard spectacles spot stand stereo strand surface vacua warship weed
wireless woodenware
"""
WIDER = frozenset(_WIDER.split())  # judged by eye: what people call so is not these classes, or much more than they


def checked(
    lexicon: Lexicon, tower: SentenceTower, photos: Vectors, captions: Sequence[Sequence[str]], labels: list[str]
) -> Lexicon:
    """Return the lexicon without the words that captions or the sentence encoder contradict."""
    said = photos_by_word(captions)
    near = near_names(sorted(lexicon.words), labels)
    z = unit(photos)
    kept = {}
    for word, meaning in lexicon.words.items():
        if word in WIDER:
            continue
        shown = said.get(word, np.zeros(0, np.int64))
        if len(shown) >= FEWEST:
            columns, whole = named_columns(lexicon, tower, [word]), unit(tower.embed(word))
            good = average_precision(z @ columns, shown) >= AS_GOOD * average_precision(z @ whole, shown)
        else:
            good = " " in word or meaning >= len(lexicon.classes) or meaning in near[word]
        if good:
            kept[word] = meaning
    return lexicon.model_copy(update={"words": kept})


def photos_by_word(captions: Sequence[Sequence[str]]) -> dict[str, NDArray[np.int64]]:
    """Return the photos whose captions say a word or two, in the singular."""
    found = defaultdict[str, set[int]](set)
    for photo, texts in enumerate(captions):
        for text in texts:
            tokens = [min((t, *singulars(t)), key=len) for t in spelled(text).split()]
            plain = spelled(text).split()
            for words in (tokens, plain):
                for length in (1, 2, 3):
                    for at in range(len(words) - length + 1):
                        found[" ".join(words[at : at + length])].add(photo)
    return {word: np.array(sorted(photos)) for word, photos in found.items()}


def near_names(words: list[str], labels: list[str]) -> dict[str, set[int]]:
    """Return the classes whose names lie nearest to each word; a class's own name is one."""
    encoder = SentenceEncoder()

    def rows(texts: list[str]) -> NDArray[np.float32]:
        return np.stack([encoder.run(encoder.tokenizer.rows([text])) for text in texts])

    order = np.argsort(-(rows(words) @ rows(labels).T), axis=1)[:, :NEAREST]
    own = {number: spelled(label) for number, label in enumerate(labels)}
    return {
        word: set(near.tolist()) | {number for number, label in own.items() if label == word}
        for word, near in zip(words, order, strict=True)
    }


def average_precision(scores: NDArray[np.float32], shown: NDArray[np.int64]) -> float:
    """Return the mean, over the photos that show it, of the precision down to each."""
    right = np.isin(np.argsort(-scores, kind="stable"), shown)
    return float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())
