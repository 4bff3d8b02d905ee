"""Whether dimensions mean something: classes of their own pass, what is rotated or drawn by chance does not."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_vectors.evaluation.certificate_splits import edit_responses, pasted_pairs, split_for_certificate
from nonneg_vectors.evaluation.linear_probes import area_under_precision, telling_columns
from nonneg_vectors.evaluation.meaning import FIGURES, ClassesAndJudge, examine
from nonneg_vectors.evaluation.structure import EncoderCodes, consistency
from nonneg_vectors.evaluation.uncertainty import GROUPS, Estimate, groups_of, interval, jackknife

CLASSES, WIDTH, D = 24, 32, 64
Rows = np.ndarray


def features(of: Rows, seed: int) -> Rows:
    """What photos of classes look like: each class has a direction of its own; a photo also shows two other things.

    Where a photo shows nothing but its class, a rotated direction's largest entries are those of one class as well.
    """
    noise = np.random.default_rng(seed).normal(size=(len(of), WIDTH))
    others = np.eye(WIDTH)[np.random.default_rng(77).integers(CLASSES, WIDTH, size=(2, len(of)))].sum(axis=0)
    return (np.eye(WIDTH)[of] * 5 + others * 3 + noise).astype(np.float32)


def head(kind: str) -> Rows:
    """Columns along the features, or along directions drawn by chance."""
    by_chance = np.random.default_rng(5).normal(size=(WIDTH, D)) / np.sqrt(WIDTH)
    return (np.concatenate([np.eye(WIDTH)] * 2, axis=1) if kind == "classes" else by_chance).astype(np.float32)


def examined(kind: str, images: int = 480) -> dict[str, dict[str, Estimate]]:
    """The figures of a head, on photos and on mixtures of two of them."""
    classes = np.arange(images) % CLASSES
    x, other = features(classes, 0), np.random.default_rng(9).normal(size=(WIDTH, D)).astype(np.float32)
    by = split_for_certificate(classes)
    made = pasted_pairs(by, 60)
    pictures = {"pasted": (x[made.donor] + x[made.host]) / 2, "cropped": x[made.donor], "recoloured": x[made.donor]}

    def seen(weight: Rows) -> EncoderCodes:
        return EncoderCodes(
            np.maximum(x @ weight - 2, 0), {k: np.maximum(v @ weight - 2, 0) for k, v in pictures.items()}
        )

    asked = ClassesAndJudge(classes, features(classes, 3), by, made)
    return examine(seen(head(kind)), asked, EncoderCodes(x @ other, {k: v @ other for k, v in pictures.items()}))


def below(found: dict[str, dict[str, Estimate]]) -> set[str]:
    """The figures that are not above every floor."""
    measured, floors = found["measured"], [found[floor] for floor in ("shuffled", "rotated", "untrained")]
    return {name for name in measured for floor in floors if not (measured[name] - floor[name]).interval().low > 0}


def test_dimensions_of_classes_are_above_every_floor() -> None:
    found = examined("classes")
    assert set(found["measured"]) == set(FIGURES)
    assert below(found) == set()


def test_a_random_head_is_not() -> None:
    assert below(examined("chance")) >= {"consistency", "monosemanticity", "probe@1"}


def test_consistency_is_the_one_that_is_reported_elsewhere() -> None:
    rng = np.random.default_rng(1)
    z, classes = np.maximum(rng.normal(size=(90, 7)), 0).astype(np.float32), np.arange(90) % 3
    by = split_for_certificate(classes)
    found = examine(EncoderCodes(z, {}), ClassesAndJudge(classes, z, by, pasted_pairs(by, 0)), None)
    assert found["measured"]["consistency"].value == pytest.approx(consistency(z, classes).weighted)
    assert set(found["measured"]) == {"consistency", "monosemanticity", "probe@1", "probe@5"}


def test_what_photos_of_one_class_cannot_show_is_left_out() -> None:
    z, classes = np.random.default_rng(1).random((60, 6)).astype(np.float32), np.zeros(60, dtype=np.int64)
    by = split_for_certificate(classes)
    found = examine(EncoderCodes(z, {}), ClassesAndJudge(classes, z, by, pasted_pairs(by, 10)), None)
    assert set(found["measured"]) == {"monosemanticity"}


def test_the_score_of_a_response_is_the_share_of_other_dimensions_that_move_less() -> None:
    columns = np.array([4, 1, 2, 0])  # of four classes
    moved = np.array([[0.0, 1.0, 2.0, 9.0, 1.0], [3.0, 0.0, 0.0, 9.0, 5.0]])
    found = edit_responses(moved, columns, shown=np.array([0, 0]), beside=np.array([1, 2]))
    assert found.scores.tolist() == [0.5, 1.0]  # 1 against 2 and 0; 5 against 0 and 3
    assert found.own.tolist() == [1.0, 5.0]
    assert found.others.tolist() == [1.0, 1.5]


def test_equal_scores_gain_no_precision() -> None:
    relevant = np.array([True, False, False, False])
    assert area_under_precision(np.zeros(4), relevant) == 0.25
    assert area_under_precision(np.array([1.0, 0, 0, 0]), relevant) == 1.0
    assert area_under_precision(np.array([1.0, 2.0, 0, 0]), relevant) == 0.5


def test_the_columns_that_tell_a_class_are_found() -> None:
    classes = np.arange(40) % 2
    z = np.random.default_rng(0).random((40, 5))
    z[:, 3] += classes * 5
    z[:, 1] += classes
    assert telling_columns(z, classes, 2)[1].tolist() == [3, 1]


def test_the_jackknife_of_a_mean_is_nearly_its_bootstrap() -> None:
    values = np.random.default_rng(0).normal(size=400)
    groups = groups_of(np.zeros(400))
    assert np.bincount(groups).tolist() == [400 // GROUPS] * GROUPS
    found = jackknife(float(values.mean()), np.array([values[groups != g].mean() for g in range(GROUPS)]))
    expected = interval(values)
    assert found.mean == pytest.approx(expected.mean)
    assert found.high - found.low == pytest.approx(expected.high - expected.low, rel=0.5)


def test_photos_that_choose_a_dimension_are_in_no_picture() -> None:
    classes = np.array([0] * 6 + [1] * 3 + [2] * 5 + [3] * 8)
    by = split_for_certificate(classes)
    assert by.classes == 3, "a class of three photos is too small"
    assert not set(by.teach) & set(by.ask)
    made = pasted_pairs(by, 50)
    assert set(made.donor) | set(made.host) <= set(by.ask)
    assert (made.shown != made.beside).all()
    assert set(np.bincount(made.shown)) <= {16, 17}, "every class in turn"
