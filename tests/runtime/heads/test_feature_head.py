from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import shorten, unit
from nonneg_runtime.heads.feature_head import fit_head, head_input, suitable_input

RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(12), 25)
FALLING = 1 / np.sqrt(np.arange(1, 41))  # as the components of real features do
SIGNED = (RNG.normal(size=(12, 40))[GROUPS] + 0.5 * RNG.normal(size=(300, 40)) * FALLING + 0.5).astype(np.float32)


def same_group_first(z: np.ndarray) -> float:
    scores = unit(z) @ unit(z).T
    np.fill_diagonal(scores, -np.inf)
    return float((GROUPS[scores.argmax(axis=1)] == GROUPS).mean())


def test_signed_features_become_non_negative_half_active_and_ordered_and_find_what_they_found() -> None:
    fitted = fit_head(SIGNED)
    z = fitted.embed(SIGNED)
    assert fitted.takes == "directions"
    assert z.shape == (300, 80)
    assert z.min() == 0
    assert 0.4 < (z > 0).mean() < 0.6
    assert same_group_first(z) >= same_group_first(SIGNED) - 0.02
    assert same_group_first(shorten(z, 20)) > same_group_first(shorten(z[:, ::-1], 20))


def test_relu_alone_loses_what_the_head_keeps() -> None:
    below = np.where(SIGNED > 0, np.float32(0), SIGNED)  # all of it is below zero
    assert not np.maximum(below, 0).any()
    assert same_group_first(fit_head(below).embed(below)) > 0.8


def test_features_that_never_go_below_zero_are_taken_as_their_roots() -> None:
    rows = np.abs(SIGNED)
    fitted = fit_head(rows, dimensions=16)
    assert fitted.takes == "roots"
    np.testing.assert_allclose(head_input(rows, "roots"), np.sqrt(rows))
    np.testing.assert_allclose(fitted.embed(rows), fitted.head.embed(np.sqrt(rows)))


def test_the_length_of_signed_features_does_not_matter() -> None:
    fitted = fit_head(SIGNED)
    np.testing.assert_allclose(fitted.embed(SIGNED * 7), fitted.embed(SIGNED), atol=1e-4)


def test_one_photo_below_zero_makes_features_signed() -> None:
    assert suitable_input(np.array([[0.0, 1.0], [2.0, 0.0]])) == "roots"
    assert suitable_input(np.array([[0.0, 1.0], [2.0, -0.1]])) == "directions"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((9, 4), np.nan), "NaN or infinity"),
        (np.tile([[1.0, 2.0]], (9, 1)), "of all 9 photos are the same"),
        (np.ones((1, 4)), "too few for a covariance"),
    ],
)
def test_features_that_say_nothing_are_refused(rows: np.ndarray, message: str) -> None:
    with pytest.raises(DataInvalid, match=message):
        fit_head(rows)
