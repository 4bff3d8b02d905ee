"""From WordNet and a model's classes to the words that the model knows: names, synonyms, hypernyms.

A word means the classes that are called so; else its most frequent sense that is a class, or has classes below it; else
the class of the same kind (animals, food) that one of its synonyms names. Of a sense with many classes those count that
have a column of their own, where these are not the lesser part of it.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from nonneg_core.errors import ConfigInvalid
from nonneg_export.names.class_weights import ClassRow, class_rows
from nonneg_export.names.shown_classes import imagenet_classes
from nonneg_export.names.wordnet import WordNet, read_wordnet
from nonneg_export.shipped import class_labels, plan_of
from nonneg_runtime.bundle import SHIPPED, Bundle, open_bundle, write_bundle
from nonneg_runtime.head_file import HEAD, SPREAD, read_head, read_spread
from nonneg_runtime.manifest import LexiconRecord
from nonneg_runtime.words.lexicon import LEXICON, Class, Lexicon, spelled
from nonneg_runtime.words.names import read_names
from nonneg_training.backbones import backbone

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
    classifier = backbone(plan.backbone, small=False, pretrained="DEFAULT").classifier
    assert classifier is not None
    rows = class_rows(read_head(bundle.path / HEAD), read_spread(bundle.path / SPREAD), classifier, own)
    words = ClassWords(read_wordnet(wordnet), list(imagenet_classes()), set(own), class_labels())
    lexicon = words.lexicon(rows, manifest.dimensions)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        files = {file: bundle.path / file for file in manifest.files} | {LEXICON: Path(work, LEXICON)}
        lexicon.write(files[LEXICON])
        record = LexiconRecord(file=LEXICON, words=len(lexicon.words), source=SOURCE)
        return write_bundle(out, manifest.model_copy(update={"lexicon": record}), files, replace=replace)


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
        self._below = {synset: self._counted(classes) for synset, classes in below.items() if len(classes) <= most}
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
        found = {spelled(word): classes for word, classes in senses.items()}
        found |= {label: tuple(classes) for label, classes in self._labelled.items()}
        for plural, singular in self._wordnet.irregular.items():
            if spelled(singular) in found:
                found.setdefault(spelled(plural), found[spelled(singular)])
        return {word: classes for word, classes in found.items() if word}

    def _sense(self, word: str) -> tuple[int, ...]:
        synsets = self._wordnet.senses[word]
        for synset in synsets:
            if synset in self._below:
                return self._below[synset]
        for sense in map(self._wordnet.synsets.__getitem__, synsets):
            for synonym in sense.words:
                named = self._labelled.get(spelled(synonym), [])
                if len(named) == 1 and self._wordnet.synsets[self._wnids[named[0]]].kind == sense.kind:
                    return tuple(named)
        return ()

    def _counted(self, classes: Sequence[int]) -> tuple[int, ...]:
        """Return those with a column of their own, where they are half of the classes or more; else all."""
        named = [number for number in classes if number in self._own]
        return tuple(named if 2 * len(named) >= len(classes) else classes)
