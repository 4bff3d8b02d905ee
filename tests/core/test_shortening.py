"""Shortening, against a version in plain Python that does one vector at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nonneg_core.errors import ParameterInvalid
from nonneg_core.shortening import keep_largest, shorten, unit

ACTIVATIONS = st.one_of(st.just(0.0), st.floats(2.0**-10, 2.0**10, width=32), st.sampled_from([0.5, 1.0, 2.0]))
BATCHES = st.tuples(st.integers(1, 5), st.integers(1, 16)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=ACTIVATIONS)
)


def slow_shorten(row, dimensions, top_k, normalize):
    row = [float(v) for v in row[:dimensions]]
    if top_k is not None:
        kept = sorted(range(len(row)), key=lambda i: (-row[i], i))[:top_k]
        row = [v if i in kept else 0.0 for i, v in enumerate(row)]
    length = math.sqrt(sum(v * v for v in row))
    return [v / length for v in row] if normalize and length else row


@given(z=BATCHES, data=st.data(), normalize=st.booleans())
def test_shorten_is_what_the_slow_version_says(z, data, normalize):
    dimensions = data.draw(st.integers(1, z.shape[1]))
    top_k = data.draw(st.none() | st.integers(1, z.shape[1] + 3))
    expected = [slow_shorten(row, dimensions, top_k, normalize) for row in z]
    np.testing.assert_allclose(shorten(z, dimensions, top_k, normalize=normalize), expected, rtol=2e-6, atol=1e-7)


@given(z=BATCHES, data=st.data())
def test_shortening_twice_is_shortening_once(z, data):
    longer = data.draw(st.integers(1, z.shape[1]))
    shorter = data.draw(st.integers(1, longer))
    np.testing.assert_allclose(shorten(shorten(z, longer), shorter), shorten(z, shorter), rtol=1e-5, atol=1e-7)


@given(z=BATCHES)
def test_all_dimensions_may_be_asked_for_by_number(z):
    np.testing.assert_array_equal(shorten(z, z.shape[1], normalize=False), z)


@given(z=BATCHES)
def test_a_row_has_length_one_or_is_zero(z):
    lengths = np.linalg.norm(shorten(z), axis=1)
    np.testing.assert_allclose(lengths, z.any(axis=1).astype(float), rtol=1e-5)


def test_among_equals_the_lower_index_stays():
    np.testing.assert_array_equal(keep_largest(np.float32([[1, 2, 1, 2, 1]]), 3), [[1, 2, 0, 2, 0]])


def test_normalising_comes_after_cutting():
    z = np.float32([3, 4, 12])
    np.testing.assert_allclose(shorten(z, 2), [0.6, 0.8], rtol=1e-6)


def test_a_vector_of_which_nothing_is_left_is_zero_and_not_nan():
    np.testing.assert_array_equal(shorten(np.float32([[0, 0, 5]]), 2), [[0, 0]])


def test_tiny_activations_do_not_vanish_when_squared():
    np.testing.assert_allclose(unit(np.float32([[3e-30, 4e-30]])), [[0.6, 0.8]], rtol=1e-6)


def test_the_given_vectors_are_not_changed():
    z = np.float32([[1, 2, 3]])
    shorten(z, 2, 1)
    np.testing.assert_array_equal(z, [[1, 2, 3]])


@pytest.mark.parametrize("dimensions", [0, -1, 5, 2.0, True, "2"])
def test_dimensions_outside_the_model_are_refused_with_the_fix(dimensions):
    with pytest.raises(ParameterInvalid) as caught:
        shorten(np.ones((1, 4)), dimensions)
    assert caught.value.field == "dimensions"
    assert caught.value.limit == 4
    assert "omit it" in caught.value.fix


@pytest.mark.parametrize("top_k", [0, -3, 1.5, False])
def test_a_top_k_that_is_not_a_count_is_refused(top_k):
    with pytest.raises(ParameterInvalid) as caught:
        shorten(np.ones((1, 4)), top_k=top_k)
    assert caught.value.field == "top_k"
