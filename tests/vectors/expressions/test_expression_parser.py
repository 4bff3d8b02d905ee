"""Expressions: what is understood, what is refused and where, and that what is written reads as itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nonneg_core.errors import ExpressionInvalid
from nonneg_vectors.expressions.expression import Dimension, Expression, Photo, Term, Words
from nonneg_vectors.expressions.expression_parser import MOST_BRACKETS, MOST_CHARACTERS, MOST_TERMS, parse


def one(*terms, without=()):
    return Expression((tuple(Term(weight, leaf) for weight, leaf in terms),), tuple(without))


A, B, C = Photo("a.jpg"), Photo("b.jpg"), Photo("c.jpg")
SNOW, THREE = Dimension("snow"), Dimension("3")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.jpg", one((1, A))),
        ('"golden retriever"', one((1, Words("golden retriever")))),
        ('"say ""cheese"""', one((1, Words('say "cheese"')))),
        ("dim:3", one((1, THREE))),
        ("dim:3+2*dim:snow", one((1, THREE), (2, SNOW))),
        ('dim:"polar bear"', one((1, Dimension("polar bear")))),
        ("my-photo+1.jpg", one((1, Photo("my-photo+1.jpg")))),
        ("photo(1).jpg", one((1, Photo("photo(1).jpg")))),
        ('photo:"my photo.jpg" - .5 * b.jpg', one((1, Photo("my photo.jpg")), (-0.5, B))),
        ("-b.jpg + a.jpg", one((-1, B), (1, A))),
        ("2*(a.jpg - 3*dim:3)", one((2, A), (-6, THREE))),
        ("a.jpg - (b.jpg - c.jpg)", one((1, A), (-1, B), (1, C))),
        ("a.jpg !dim:3 !dim:snow !dim:3", one((1, A), without=[THREE, SNOW])),
        ("!dim:3 a.jpg", one((1, A), without=[THREE])),
        ("a.jpg & b.jpg + c.jpg", Expression((((Term(1, A)),), (Term(1, B), Term(1, C))))),
        ("(a.jpg & !dim:3) & b.jpg", Expression(((Term(1, A),), (Term(1, B),)), (THREE,))),
        ("http://x.org/a?b=1&c=2 & a.jpg", Expression(((Term(1, Photo("http://x.org/a?b=1&c=2")),), (Term(1, A),)))),
    ],
)
def test_what_is_written_is_understood(text, expected):
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("", 0, "should stand here, not the end"),
        ("a.jpg +", 7, "should stand here, not the end"),
        ("+ a.jpg", 0, "should stand here, not '+'"),
        ("a.jpg - - b.jpg", 8, "should stand here, not '-'"),
        ("a.jpg b.jpg", 6, "without an operator"),
        ("a.jpg !dim:3 b.jpg", 13, "without an operator"),
        ('a.jpg + "snow', 8, "not closed"),
        ("(a.jpg", 6, "a bracket is not closed"),
        ("a.jpg)", 5, "closes no bracket"),
        ("(" * (MOST_BRACKETS + 1) + "a.jpg", MOST_BRACKETS, "brackets are open"),
        ("a.jpg + (b.jpg & c.jpg)", 8, "cannot be added"),
        ("2*(b.jpg !dim:3)", 0, "cannot be added"),
        ("a.jpg & !b.jpg", 9, "not a photo"),
        ("- a.jpg - b.jpg", 2, "everything here is subtracted"),
        ("0*a.jpg", 0, "the weight 0"),
        ("9999*a.jpg", 0, "the weight 9999"),
        ('a.jpg & " "', 8, "nothing in the quotation marks"),
        ("dim: 3", 0, "names nothing"),
        (" & ".join(["dim:3"] * 40), 8 * MOST_TERMS, "more than 32 terms"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, at, words):
    with pytest.raises(ExpressionInvalid, match=re.escape(words)) as refused:
        parse(text)
    assert refused.value.field == f"expression[{at}]"
    assert f"character {at + 1} " in refused.value.message
    assert refused.value.fix


def test_a_text_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(ExpressionInvalid) as refused:
        parse("(" * (MOST_CHARACTERS + 1))
    assert refused.value.limit == MOST_CHARACTERS


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
leaves = st.one_of(names.map(Photo), names.map(Words), names.map(Dimension), st.integers(0, 9).map(str).map(Dimension))
unwanted = st.one_of(names.map(Words), names.map(Dimension))
weights = st.sampled_from([1, -1, 2, 0.5, -0.25, 12.5])
sums = st.lists(st.builds(Term, weights, leaves), min_size=1, max_size=4).filter(
    lambda terms: any(term.weight > 0 for term in terms)
)
expressions = st.builds(
    lambda parts, without: Expression(tuple(tuple(part) for part in parts), tuple(dict.fromkeys(without))),
    st.lists(sums, min_size=1, max_size=3),
    st.lists(unwanted, max_size=3),
)


@given(expressions)
def test_every_expression_reads_as_it_was_written(expression):
    assert parse(str(expression)) == expression


@given(st.text(alphabet='ad:im3 "+-&!()*.2x', max_size=60))
def test_any_text_is_read_or_refused_with_a_place_within_it(text):
    place = None
    try:
        assert parse(str(parse(text))) == parse(text)
    except ExpressionInvalid as error:
        place = error.field
    assert place is None or 0 <= int(place[len("expression[") : -1]) <= len(text)
