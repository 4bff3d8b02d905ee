"""Text to vectors by a small lexicon of our own: longest words first, plurals, and what is not known."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.errors import BundleInvalid, DataInvalid, LexiconMissing, ParameterInvalid, WordsUnknown
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.words.lexicon import MOST_BYTES, Class, Lexicon, read_lexicon
from nonneg_runtime.words.text_vector import HINTS, MOST_WORDS, known_to, unwanted, vector_of, words_of
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
    assert list(words_of(lexicon, text)) == words


def test_a_words_vector_is_the_sum_of_its_classes_each_of_length_one(lexicon):
    np.testing.assert_allclose(lexicon.vector("dog")[[3, 5]], [0.5**0.5, 0.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(lexicon.vector("wolf")[[0, 5]], [0.6, 0.8], rtol=1e-6)
    assert lexicon.own("dog") == [3, 5]
    assert lexicon.own("wolf") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hot", "knows no word 'hot'"),
        ("a dgo", "nearest known words: dog"),
        ("not a dog", 'in an expression: "dog" !"cat"'),
        ("the photo", "no word that can be seen"),
    ],
)
def test_a_word_that_is_not_known_is_told_with_those_that_are_near(lexicon, text, message):
    with pytest.raises(WordsUnknown, match=message):
        words_of(lexicon, text)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("beach", "nearest known words: seashore, sandbar"),
        ("two lakes", "nearest known words: lakeside"),
        ("red car", '"car" alone is known'),
        ("two dogs", '"dog" alone is known'),
        ("beach with a dog", 'nearest known words: seashore, sandbar; "dog" alone is known'),
        ("goldn retriever", 'nearest known words: golden retriever; "retriever" alone is known'),
        ("retreivers", "nearest known words: retriever"),
    ],
)
def test_the_words_that_are_near_are_those_that_mean_it_or_are_spelt_alike(text, fix):
    with pytest.raises(WordsUnknown) as refused:
        words_of(known_to(open_bundle("photo-fast")), text)
    assert str(refused.value.fix).startswith(fix)


@pytest.mark.parametrize("name", ["photo", "photo-fast"])
def test_hints_stand_for_words_that_are_not_known_and_lead_to_those_that_are(name):
    words = known_to(open_bundle(name)).words
    assert 20 <= len(HINTS) <= 50
    assert not HINTS.keys() & words.keys()
    assert {hint for hints in HINTS.values() for hint in hints} <= words.keys()


def test_one_part_of_a_long_name_is_not_near():
    assert near("red", ["red backed sandpiper", "red fox", "reed"]) == ["red fox", "reed"]
    assert near("tow", ["bicycle built for two", "tow truck"]) == ["tow truck"]


def test_a_text_is_empty_or_too_long_only_if_it_is(lexicon):
    for text in ("", " \t"):
        with pytest.raises(ParameterInvalid, match="empty"):
            words_of(lexicon, text)
    assert len(words_of(lexicon, "dog " * MOST_WORDS)) == MOST_WORDS
    with pytest.raises(ParameterInvalid, match=f"{MOST_WORDS + 1} words") as refused:
        words_of(lexicon, "dog " * (MOST_WORDS + 1))
    assert refused.value.limit == MOST_WORDS
    assert len(words_of(lexicon, "dog " * 5000, truncate=True)) == MOST_WORDS


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
def test_the_shipped_models_know_words_and_what_must_not_be_there(name):
    bundle = open_bundle(name)
    assert bundle.manifest.lexicon is not None
    assert (bundle.path / bundle.manifest.lexicon.file).stat().st_size <= MOST_BYTES
    for text in ("dog", "bird", "vehicle", "furniture", "a golden retriever", "laptop", "rooster", "wolves"):
        found = vector_of(bundle, text).vector
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
        assert found.min() >= 0
    assert len(unwanted(bundle, "dog")) > 50
    with pytest.raises(WordsUnknown, match="no dimension stands for"):
        unwanted(bundle, "seashore")  # a class without a column of its own


def test_a_model_without_a_lexicon_says_so(tmp_path):
    import dataclasses

    bundle = open_bundle("photo-fast")
    bare = bundle.manifest.model_copy(update={"lexicon": None}).sealed()
    (tmp_path / "manifest.json").write_text(bare.to_json())
    with pytest.raises(LexiconMissing, match="knows no words"):
        vector_of(dataclasses.replace(bundle, path=tmp_path, manifest=bare), "dog")
