"""Expressions as weightings of dimensions, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.errors import ExpressionInvalid
from nonneg_core.shortening import unit
from nonneg_vectors.expressions.expression import Photo, Words, near
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.expressions.weightings import HEAVY, HIGHEST, LEVELS, TEXT, Chance, Meanings, resolve

NAMES = {2: "snow", 5: "Polar bear", 6: "crane", 7: "crane"}
ROWS = {
    Photo("a.jpg"): (np.array([0, 2], np.int32), np.array([3, 4], np.float32)),
    Words("dog"): (np.array([2, 3], np.int32), np.array([1, 1], np.float32)),
}


def meanings(dimensions=8):
    usual = np.arange(1, dimensions + 1) / 20
    return Meanings(dimensions, NAMES, ROWS, Chance(usual, np.full(dimensions, 0.01)))


def dense(row, dimensions=8):
    z = np.zeros(dimensions)
    z[row[0]] = row[1]
    return z


def test_a_part_is_the_sum_of_unit_vectors_times_their_weights_and_of_length_one():
    found = resolve(parse('a.jpg + 2*dim:snow - 0.5*"dog" & dim:5'), meanings())
    a, dog = np.array([0.6, 0, 0.8, 0, 0, 0, 0, 0]), np.array([0, 0, 1, 1, 0, 0, 0, 0]) / np.sqrt(2)
    expected = a + 2 * np.eye(8)[2] - 0.5 * dog
    np.testing.assert_allclose(dense(found.parts[0]), expected / np.linalg.norm(expected), rtol=1e-6)
    np.testing.assert_allclose(dense(found.parts[1]), np.eye(8)[5])


def test_what_is_unwanted_is_dimensions_and_words_above_the_line_of_chance():
    found = resolve(parse('a.jpg !"dog" !dim:"polar BEAR" !dim:3'), meanings())
    assert found.without == (3, 5)
    (dog,) = found.unlike
    np.testing.assert_allclose(dense(dog.row)[[2, 3]], [0.5**0.5, 0.5**0.5])
    chance = meanings().chance
    usual = float(dense(dog.row) @ chance.mean)
    left = dense(dog.row) - usual * chance.mean
    spread = np.sqrt((1 - chance.mean @ chance.mean) * (left**2 @ chance.variance))
    assert dog.line == pytest.approx(min(HIGHEST, usual + TEXT * spread))


def test_where_nothing_is_looked_for_every_photo_is_a_match():
    alone = parse('!"dog" !dim:3')
    found = resolve(alone, meanings())
    np.testing.assert_allclose(dense(found.parts[0]), np.arange(1, 9) / np.linalg.norm(np.arange(1, 9)), rtol=1e-5)
    assert meanings().chance.of_query(alone, found.parts) == (0.0, 0.0)


def test_a_query_of_words_alone_has_a_lower_line_than_one_with_a_photo():
    chance = Chance(np.full(8, 0.1), np.full(8, 0.001))
    words, both = parse('"dog"'), parse('"dog" + a.jpg')
    row = resolve(words, Meanings(8, NAMES, ROWS, chance)).parts
    assert chance.of_query(words, row).best < chance.of_query(both, row).best


def test_the_best_photo_of_a_sentence_must_reach_more_where_one_column_is_most_of_the_text():
    chance = Chance(np.full(8, 0.1), np.full(8, 0.001), of_sentences=True)
    even, one = (((np.arange(8, dtype=np.int32), unit(np.float32(w))),) for w in ([1] * 8, [9, *[0.1] * 7]))
    words = parse('"dog"')
    for row in (even, one):
        lines = chance.of_query(words, row)
        deviations = LEVELS[128] + HEAVY * float(row[0][1].max())
        assert lines.best == pytest.approx(chance.line(row, deviations))
        assert lines.others == pytest.approx(min(lines.best, chance.line(row, TEXT)))
        assert lines.at(lines.best) == lines.others
        assert lines.at(lines.best - 0.01) == lines.best
    assert chance.of_query(words, one).best > chance.of_query(words, one).others


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("a.jpg + dim:snom", "no dimension is called snom", "did you mean snow?"),
        ("a.jpg + dim:bear", "no dimension is called bear", "did you mean polar bear?"),
        ("a.jpg + dim:qqqq", "no dimension is called qqqq", "by its number"),
        ("a.jpg + dim:crane", "2 dimensions are called crane", "dim:6 or dim:7"),
        ("a.jpg + dim:8", "dim:8 is dimension 8, and there are 8", "0 to 7"),
    ],
)
def test_a_dimension_that_is_not_there_is_told_with_those_that_are_near(text, message, fix):
    with pytest.raises(ExpressionInvalid, match=message) as refused:
        resolve(parse(text), meanings())
    assert fix in str(refused.value.fix)
    assert refused.value.field == "expression[8]"


def test_a_named_dimension_beyond_a_short_length_is_refused_with_its_number():
    with pytest.raises(ExpressionInvalid, match="is dimension 5, and there are 4"):
        resolve(parse('dim:"polar bear"'), meanings(4))


def test_a_sum_of_which_nothing_is_left_is_refused():
    with pytest.raises(ExpressionInvalid, match="nothing is left"):
        resolve(parse("dim:3 - 2*dim:3"), meanings())


def test_near_names_are_those_written_alike_and_those_that_hold_it():
    assert near("retriever", ["golden retriever", "retrieved", "cat"]) == ["golden retriever", "retrieved"]
