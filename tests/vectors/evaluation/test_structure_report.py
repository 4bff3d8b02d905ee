"""Structure beside its floors, and the monosemanticity score against the definition that compares all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid
from nonneg_vectors.evaluation.structure import EncoderCodes, floors, mean_score, monosemanticity, rotation, sparsity
from nonneg_vectors.evaluation.structure_report import structure


def of_classes(images: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes, each with three dimensions of its own."""
    rng = np.random.default_rng(seed)
    y = np.arange(images) % 10
    own = np.repeat(np.eye(10), 3, axis=1)[y] * rng.random((images, 30))
    z = own + np.maximum(rng.normal(size=(images, 30)) - 1.5, 0) / 4
    return z.astype(np.float32), y


def by_pairs(z: np.ndarray, e: np.ndarray) -> list[float]:
    scores = []
    for column in z.T.astype(np.float64):
        a = column - min(column.min(), 0)
        total = weight = 0.0
        for i in range(len(a)):
            for j in range(len(a)):
                if i != j:
                    cosine = e[i] @ e[j] / np.linalg.norm(e[i]) / np.linalg.norm(e[j])
                    total, weight = total + a[i] * a[j] * cosine, weight + a[i] * a[j]
        scores.append(total / weight if weight else float("nan"))
    return scores


@pytest.mark.parametrize("signed", [False, True])
def test_monosemanticity_is_the_weighted_mean_cosine_of_all_pairs(signed: bool) -> None:
    rng = np.random.default_rng(3)
    z, judge = rng.normal(size=(25, 6)), rng.normal(size=(25, 8))
    z = z if signed else np.maximum(z, 0)
    z[:, 2] = 0
    z[4, 2] = float(not signed)  # active once: no pair
    np.testing.assert_allclose(monosemanticity(z, judge), by_pairs(z, judge), rtol=1e-5)
    assert np.isfinite(mean_score(z, judge))


def test_what_means_something_is_above_each_of_its_floors() -> None:
    z, y = of_classes()
    second = z[:100] * np.random.default_rng(1).uniform(0.8, 1.2, (100, 30)).astype(np.float32)
    noise = np.random.default_rng(2).normal(size=(400, 30)).astype(np.float32)
    found = structure(z, y, second=second, untrained=(noise[:300], noise[300:]))
    assert found.untrained is not None
    for name in ("consistency", "purity", "monosemanticity"):
        best = max(getattr(floor, name) for floor in (found.shuffled, found.rotated, found.untrained))
        assert getattr(found.measured, name) > best + 0.1, name
    assert found.measured.sepin is not None
    assert found.rotated.sepin is not None
    assert set(found.measured.sepin) == set(found.rotated.sepin) == {"1", "10", "all"}
    assert "49 negatives" in found.estimator


def test_what_means_nothing_is_not() -> None:
    rng = np.random.default_rng(0)
    z, y = np.maximum(rng.normal(size=(5000, 40)) - 1, 0), np.arange(5000) % 5
    found = structure(z, y)
    for name in ("consistency", "purity", "monosemanticity"):
        floors = [getattr(floor, name) for floor in (found.shuffled, found.rotated)]
        assert getattr(found.measured, name) == pytest.approx(np.mean(floors), abs=0.03), name


def test_a_rotation_keeps_lengths_and_the_cut_keeps_the_sparsity() -> None:
    z, _ = of_classes()
    q = rotation(30)
    np.testing.assert_allclose(q @ q.T, np.eye(30), atol=1e-5)
    floor = floors(EncoderCodes(z, {"again": z[:50]}))["rotated"]
    turned, other = floor.photos, floor.pictures["again"]
    np.testing.assert_allclose(turned[:50], other, rtol=1e-5, atol=1e-4)
    assert sparsity(turned) == pytest.approx(sparsity(z), abs=0.01)
    assert turned.min() >= 0
    signed = floors(EncoderCodes(np.random.default_rng(0).normal(size=(20, 30))))["rotated"]
    assert signed.photos.min() < 0, "dense, signed vectors stay dense and signed"


def test_signed_vectors_are_measured_as_they_are() -> None:
    z, y = np.random.default_rng(0).normal(size=(60, 8)), np.arange(60) % 3
    found = structure(z, y).measured
    assert (found.live, found.nnz, found.sparsity, found.zero_share) == (8, 8.0, 0.0, 0.0)
    assert found.sepin is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"z": np.ones(4)}, "one row an image"),
        ({"z": np.full((4, 2), np.nan)}, "not numbers"),
        ({"labels": [0, 1]}, "2 labels for 4 vectors"),
        ({"second": np.ones((4, 3))}, "second views of shape"),
        ({"judge": np.ones((3, 3))}, "3 vectors of the judge for 4 images"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: dict[str, np.ndarray], message: str) -> None:
    given = {"z": np.ones((4, 2)), "labels": [0, 1, 0, 1], **arguments}
    z, labels = given.pop("z"), given.pop("labels")
    with pytest.raises(DataInvalid, match=message):
        structure(z, labels, **given)
