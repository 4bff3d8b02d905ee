"""From WordNet and a model's classes to the words that the model knows: names, synonyms, hypernyms.

A word means the classes that are called so; else its most frequent sense that is a class, or has several classes below
it. Of a sense with many classes those count that have a column of their own, where these are not the lesser part of it.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles
from nonneg_core.errors import ConfigInvalid
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, open_bundle, write_bundle
from nonneg_runtime.bundle.head_file import HEAD, SPREAD, read_head, read_spread
from nonneg_runtime.bundle.manifest import LexiconRecord
from nonneg_runtime.heads.head import Head
from nonneg_runtime.heads.moments import Spread
from nonneg_runtime.words.lexicon import LEXICON, Class, Lexicon, spelled
from nonneg_runtime.words.names import read_names
from nonneg_training.encoder.named_backbones import open_backbone
from research.models.rebuild import class_labels, plan_of
from research.models.shown_classes import imagenet_classes
from research.models.wordnet import WordNet, read_wordnet

MOST_GENERAL = 0.5  # of all classes: what holds more of them, such as an entity, is nothing to search for
SOURCE = "WordNet 3.0, Copyright 2006 by Princeton University; its licence stands in NOTICE"


def add_lexicon(name: str, wordnet: Path, out: Path, *, replace: bool = False) -> Bundle:
    """Return a shipped model with the words that it knows, written to `out`; its vectors stay what they are."""
    plan = plan_of(name)
    bundle = open_bundle(SHIPPED / plan.name)
    manifest = bundle.manifest
    if manifest.names is None:
        raise ConfigInvalid(f"{name} has no names to begin with", fix="export it with names", field="names")
    names = read_names(bundle.path / manifest.names.file, manifest.dimensions).names
    own = {named.klass: named.dimension for named in names if named.klass is not None}
    classifier = open_backbone(plan.backbone, small=False, pretrained="DEFAULT").classifier
    assert classifier is not None
    rows = class_rows(read_head(bundle.path / HEAD), read_spread(bundle.path / SPREAD), classifier, own)
    words = ClassWords(read_wordnet(wordnet), list(imagenet_classes()), set(own), class_labels())
    lexicon = words.lexicon(rows, manifest.dimensions)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        files = {file: bundle.path / file for file in manifest.files} | {LEXICON: Path(work, LEXICON)}
        lexicon.write(files[LEXICON])
        record = LexiconRecord(file=LEXICON, words=len(lexicon.words), source=SOURCE)
        return write_bundle(out, manifest.model_copy(update={"lexicon": record}), files, replace=replace)


def relaid(lexicon: Lexicon, head: Head, spread: Spread, classifier: NDArray[Any], own: Mapping[int, int]) -> Lexicon:
    """Return the same words for another head, whose columns along classes are `own`."""
    rows = class_rows(head, spread, classifier, own)
    classes = tuple(
        entry.model_copy(update={"dimensions": tuple(row[0]), "weights": tuple(row[1])})
        for entry, row in zip(lexicon.classes, rows, strict=True)
    )
    return lexicon.model_copy(update={"classes": classes})


class ClassWords:
    """WordNet's words over the classes of a classifier."""

    def __init__(self, wordnet: WordNet, wnids: Sequence[str], own: set[int], labels: Sequence[str]) -> None:
        self._wordnet = wordnet
        self._wnids, self._own = wnids, own
        below: defaultdict[str, list[int]] = defaultdict(list)
        for number, wnid in enumerate(wnids):
            for synset in {wnid} | wordnet.above(wnid):
                below[synset].append(number)
        most = MOST_GENERAL * len(wnids)
        self._below = {
            synset: self._counted(classes)
            for synset, classes in below.items()
            if synset in wnids or 1 < len(classes) <= most
        }
        self._labelled: defaultdict[str, list[int]] = defaultdict(list)
        for number, label in enumerate(labels):
            self._labelled[spelled(label)].append(number)

    def lexicon(self, rows: Sequence[ClassRow], dimensions: int) -> Lexicon:
        """Return all words that mean a class or a group of them."""
        groups: dict[tuple[int, ...], int] = {}
        words: dict[str, int] = {}
        for word, classes in sorted(self._meanings().items()):
            words[word] = classes[0] if len(classes) == 1 else len(rows) + groups.setdefault(classes, len(groups))
        described = tuple(
            Class(wnid=wnid, dimensions=tuple(row[0]), weights=tuple(row[1]))
            for wnid, row in zip(self._wnids, rows, strict=True)
        )
        return Lexicon(dimensions=dimensions, source=SOURCE, classes=described, groups=tuple(groups), words=words)

    def _meanings(self) -> Mapping[str, tuple[int, ...]]:
        senses = {word: classes for word in self._wordnet.senses if (classes := self._sense(word))}
        meanings = {spelled(word): classes for word, classes in senses.items()}
        meanings |= {label: tuple(classes) for label, classes in self._labelled.items()}
        for plural, singular in self._wordnet.irregular.items():
            if spelled(singular) in meanings:
                meanings.setdefault(spelled(plural), meanings[spelled(singular)])
        return {word: classes for word, classes in meanings.items() if word}

    def _sense(self, word: str) -> tuple[int, ...]:
        synsets = self._wordnet.senses[word]
        for synset in synsets:
            if synset in self._below:
                return self._below[synset]
        return ()

    def _counted(self, classes: Sequence[int]) -> tuple[int, ...]:
        """Return those with a column of their own, where they are half of the classes or more; else all."""
        named = [number for number in classes if number in self._own]
        return tuple(named if 2 * len(named) >= len(classes) else classes)


# Which dimensions tell a class of the classifier: its own column, or those that together follow its logit.
#
# A class without a column of its own gets weights, none below zero, whose sum of columns is nearest to its logit over
# the covariance that the head was computed from: no photo is needed, only what the bundle holds and the classifier.

MOST = 256  # dimensions of a class
RIDGE = 0.02  # of the mean variance
STEPS = 300
FINEST = 255  # weights are whole numbers up to this
ClassRow = tuple[list[int], list[int]]  # dimensions, rising, and their weights


def class_rows(head: Head, spread: Spread, classifier: NDArray[Any], own: Mapping[int, int]) -> list[ClassRow]:
    """Return the dimensions of every class and what they are worth; `own`: the column of those that have one."""
    without = [c for c in range(len(classifier)) if c not in own]
    fitted = dict(zip(without, _fitted(head, spread, classifier[without] - classifier.mean(axis=0)).T, strict=True))
    return [([own[c]], [1]) if c in own else _row(fitted[c]) for c in range(len(classifier))]


def _fitted(head: Head, spread: Spread, gradients: NDArray[Any]) -> Doubles:
    """Fit weights of columns, (D, classes): non-negative least squares, of which the strongest are fitted again."""
    logits = gradients * (2 * spread.mean)  # (classes, features): the change with a feature's root
    weight = head.weight.astype(np.float64)
    gram = weight.T @ spread.covariance @ weight  # (D, D)
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    scale = 1 / np.sqrt(np.diag(gram))
    gram = gram * scale[:, None] * scale
    spreads = np.sqrt(np.einsum("cf,fg,cg->c", logits, spread.covariance, logits))
    aim = (weight.T @ spread.covariance @ logits.T) * scale[:, None] / spreads  # (D, classes)
    coefficients = nonnegative(gram, aim)
    weakest = np.argsort(-coefficients, axis=0)[MOST:]
    allowed = np.ones_like(coefficients)
    np.put_along_axis(allowed, weakest, 0, axis=0)
    return nonnegative(gram, aim, allowed) * scale[:, None]


def nonnegative(gram: NDArray[Any], aim: NDArray[Any], allowed: NDArray[Any] | float = 1.0) -> Doubles:
    """Return the b >= 0 that minimise b' gram b - 2 b' aim, a column each; zero where they are not allowed (FISTA)."""
    step = 1 / np.linalg.eigvalsh(gram)[-1]
    x = y = np.zeros_like(aim)
    t = 1.0
    for _ in range(STEPS):
        following = np.maximum(y - step * (gram @ y - aim), 0) * allowed
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y = following + (t - 1) / after * (following - x)
        x, t = following, after
    return np.asarray(x, dtype=np.float64)


def _row(weights: Doubles) -> ClassRow:
    whole = np.rint(weights / weights.max() * FINEST).astype(int)
    dimensions = np.flatnonzero(whole)
    return dimensions.tolist(), whole[dimensions].tolist()
