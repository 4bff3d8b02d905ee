"""Words from WordNet's own file format, over classes of our own; weights of a class against scipy's solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from nonneg_core.errors import DataInvalid
from research.models.lexicon_words import ClassWords, nonnegative
from research.models.wordnet import read_wordnet

DATA = """\
  1 A licence, whose lines begin with spaces.
00000001 03 n 01 entity 0 000 | what is
00000002 05 n 02 animal 0 beast 0 001 @ 00000001 n 0000 | alive
00000003 05 n 02 dog 0 domestic_dog 0 001 @ 00000002 n 0000 | barks
00000004 05 n 01 wolf 0 001 @ 00000002 n 0000 | howls
00000005 05 n 02 rooster 0 cock 0 001 @ 00000002 n 0000 | crows
00000006 06 n 02 cock 0 faucet 0 001 @ 00000001 n 0000 | drips
00000007 05 n 01 cock 0 001 @ 00000002 n 0000 | a male bird
00000008 03 n 01 stone 0 001 @ 00000001 n 0000 | lies
"""
INDEX = """\
  1 A licence, whose lines begin with spaces.
animal n 1 1 @ 1 0 00000002
beast n 1 1 @ 1 0 00000002
cock n 3 1 @ 3 0 00000006 00000007 00000005
dog n 1 1 @ 1 0 00000003
domestic_dog n 1 1 @ 1 0 00000003
entity n 1 0 1 0 00000001
faucet n 1 1 @ 1 0 00000006
rooster n 1 1 @ 1 0 00000005
stone n 1 1 @ 1 0 00000008
wolf n 1 1 @ 1 0 00000004
"""
WNIDS, LABELS = ["n00000003", "n00000004", "n00000007", "n00000008"], ["hound", "wolf", "cock", "stone"]


@pytest.fixture
def wordnet(tmp_path):
    for name, text in (("data.noun", DATA), ("index.noun", INDEX), ("noun.exc", "wolves wolf\nmice mouse\n")):
        (tmp_path / name).write_text(text)
    return read_wordnet(tmp_path)


@pytest.fixture
def lexicon(wordnet):
    rows = [([1], [1]), ([2], [1]), ([3], [1]), ([0, 3], [2, 5])]
    return ClassWords(wordnet, WNIDS, {0, 1, 2}, LABELS).lexicon(rows, 4)


@pytest.mark.parametrize(
    ("word", "classes"),
    [
        ("dog", (0,)),
        ("domestic dog", (0,)),
        ("hound", (0,)),  # the classifier's own name
        ("wolves", (1,)),  # an irregular plural
        ("cock", (2,)),  # the name goes before the more frequent tap
    ],
)
def test_names_synonyms_and_plurals_mean_their_class(lexicon, word, classes):
    assert lexicon.members(word) == classes


def test_what_is_too_general_or_not_of_the_kind_is_not_a_word(lexicon):
    assert "faucet" not in lexicon.words  # cock names a bird here
    assert "entity" not in lexicon.words
    assert "mice" not in lexicon.words
    assert "rooster" not in lexicon.words  # shares a sense with the word that names the bird, and does not name it
    assert "animal" not in lexicon.words  # three of four classes


def test_a_group_counts_its_classes_with_a_column_of_their_own(wordnet):
    rows = [([1], [1])] * 8
    words = ClassWords(wordnet, [*WNIDS, *["n00000008"] * 4], {0, 1}, [*LABELS, *"abcd"])
    assert words.lexicon(rows, 4).members("animal") == (0, 1)
    words = ClassWords(wordnet, [*WNIDS, *["n00000008"] * 4], {0}, [*LABELS, *"abcd"])
    assert words.lexicon(rows, 4).members("animal") == (0, 1, 2)


def test_a_folder_without_wordnet_is_refused_with_the_fix(tmp_path):
    with pytest.raises(DataInvalid, match="wordnet-base"):
        read_wordnet(tmp_path)


def test_weights_of_a_class_are_the_least_squares_that_are_not_negative():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 12)), rng.normal(size=(40, 3))
    found = nonnegative(a.T @ a, a.T @ b)
    expected = np.stack([nnls(a, column)[0] for column in b.T], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-4)
