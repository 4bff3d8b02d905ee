"""Text to vectors: names of classes, longest words first, and what the sentence tower makes of any text."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nonneg_core.errors import BundleInvalid, CheckFailed, DataInvalid, LexiconMissing, ParameterInvalid
from nonneg_core.shortening import unit
from nonneg_runtime.bundle.bundle_folder import open_bundle, write_bundle
from nonneg_runtime.inference.text_tower import MAP, SentenceTower, read_map, text_tower
from nonneg_runtime.words.column_facts import names_of
from nonneg_runtime.words.lexicon import MOST_BYTES, Class, Lexicon, read_lexicon
from nonneg_runtime.words.text_vector import names_in, vector_of
from nonneg_vectors.expressions.expression import near


@pytest.fixture
def lexicon() -> Lexicon:
    classes = (
        Class(wnid="n1", dimensions=(3,), weights=(1,)),
        Class(wnid="n2", dimensions=(5,), weights=(1,)),
        Class(wnid="n3", dimensions=(0, 5), weights=(3, 4)),
    )
    words = {"dog": 3, "hot dog": 0, "fox": 1, "wolves": 2, "wolf": 2, "jack o lantern": 1}
    return Lexicon(dimensions=8, source="here", classes=classes, groups=((0, 1),), words=words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dog", ["dog"]),
        ("A Hot-Dog!", ["hot dog"]),
        ("hot dogs, dogs", ["hot dog", "dog"]),
        ("photos of foxes and the wolves", ["fox", "wolves"]),
        ("jack-o-lantern", ["jack o lantern"]),
    ],
)
def test_the_longest_known_word_at_each_place_is_taken(lexicon, text, words):
    assert names_in(lexicon, text) == (tuple(words), True)


def test_a_words_vector_is_the_sum_of_its_classes_each_of_length_one(lexicon):
    np.testing.assert_allclose(lexicon.vector("dog")[[3, 5]], [0.5**0.5, 0.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(lexicon.vector("wolf")[[0, 5]], [0.6, 0.8], rtol=1e-6)
    assert lexicon.own("dog") == [3, 5]
    assert lexicon.own("wolf") == []


@pytest.mark.parametrize(
    ("text", "words", "whole"),
    [
        ("hot", [], False),
        ("a wolf in the snow", ["wolf"], False),
        ("a dog in the snow", [], False),  # several classes: the tower knows better
        ("the photo", [], True),
    ],
)
def test_in_a_sentence_names_of_one_class_alone_are_known(lexicon, text, words, whole):
    assert names_in(lexicon, text) == (tuple(words), whole)


def test_one_part_of_a_long_name_is_not_near():
    assert near("red", ["red backed sandpiper", "red fox", "reed"]) == ["red fox", "reed"]
    assert near("tow", ["bicycle built for two", "tow truck"]) == ["tow truck"]
    assert near("beach", ["bench", "beech", "peach", "leech"]) == ["bench", "beech", "peach"]


def test_a_lexicon_is_read_as_it_was_written_and_only_beside_its_own_model(lexicon, tmp_path):
    lexicon.write(tmp_path / "lexicon.json")
    assert read_lexicon(tmp_path / "lexicon.json", 8) == lexicon
    with pytest.raises(BundleInvalid, match="8 dimensions, not 9"):
        read_lexicon(tmp_path / "lexicon.json", 9)
    (tmp_path / "lexicon.json").write_text('{"format": "nonneg-lexicon-1"}')
    with pytest.raises(BundleInvalid, match="holds no lexicon"):
        read_lexicon(tmp_path / "lexicon.json", 8)


def test_a_lexicon_that_is_too_large_for_a_bundle_is_not_written(lexicon, tmp_path):
    words = {f"{number:0990}": 0 for number in range(MOST_BYTES // 1000 + 30)}
    with pytest.raises(DataInvalid, match="bytes") as refused:
        lexicon.model_copy(update={"words": words}).write(tmp_path / "lexicon.json")
    assert refused.value.limit == MOST_BYTES
    assert not (tmp_path / "lexicon.json").exists()


@pytest.mark.parametrize("name", ["photo", "photo-fast"])
def test_the_shipped_models_make_a_vector_of_any_text(name):
    bundle = open_bundle(name)
    assert bundle.manifest.lexicon is not None
    assert (bundle.path / bundle.manifest.lexicon.file).stat().st_size <= MOST_BYTES
    for text in ("dog", "a golden retriever", "sunset at the beach", "qwertz", "no dog", "red dress", "x" * 200):
        vector = vector_of(bundle, text)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        assert vector.min() >= 0
        assert vector[:64].any()
    for text in ("", " \n", "x " * 5000):
        with pytest.raises(ParameterInvalid):
            vector_of(bundle, text)
    assert vector_of(bundle, "a dog " * 5000, truncate=True).any()


def test_a_class_that_is_named_has_its_column_and_what_the_tower_says():
    bundle = open_bundle("photo")
    tower = text_tower(bundle)
    assert isinstance(tower, SentenceTower)
    (column,) = (d for d, name in names_of(bundle).items() if name == "golden retriever")
    alone = unit(tower.embed("golden retriever"))
    named = vector_of(bundle, "a golden retriever")
    in_a_sentence = vector_of(bundle, "a golden retriever on the beach")
    assert named.argmax() == in_a_sentence.argmax() == column
    assert alone[column] < in_a_sentence[column] < named[column]
    assert named @ alone > 0.3


def test_a_map_behind_another_encoder_is_refused_with_what_is_missing(tmp_path):
    source = open_bundle("photo-fast")
    record = source.manifest.sentences
    assert record is not None
    other = record.model_copy(update={"encoder": "0" * 64})
    files = {name: source.path / name for name in source.manifest.files}
    bundle = write_bundle(tmp_path / "b", source.manifest.model_copy(update={"sentences": other}), files)
    with pytest.raises(BundleInvalid, match=r"need encoder\.onnx of sha256 0000"):
        vector_of(bundle, "dog")


def test_a_map_that_was_changed_fails_its_self_test(tmp_path):
    source = open_bundle("photo-fast")
    record = source.manifest.sentences
    assert record is not None
    whole = read_map(source.path / record.file)
    dataclasses.replace(whole, golden=whole.golden[::-1].copy()).write(tmp_path / MAP)
    files = {name: source.path / name for name in source.manifest.files} | {MAP: tmp_path / MAP}
    bundle = write_bundle(tmp_path / "b", source.manifest, files)
    with pytest.raises(CheckFailed, match="self-test"):
        vector_of(bundle, "dog")


def test_a_model_without_a_tower_says_so(tmp_path):
    bundle = open_bundle("photo-fast")
    bare = bundle.manifest.model_copy(update={"sentences": None}).sealed()
    with pytest.raises(LexiconMissing, match="knows no words"):
        vector_of(dataclasses.replace(bundle, manifest=bare), "dog")
