"""Doubtful labels against a classifier that is really trained again without each photo."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_photos import photos, sparse

from nonneg_core.errors import DataInvalid
from nonneg_vectors.curation.collection import Collection
from nonneg_vectors.curation.curation_parts import CurationOptions, curate, why_unlabelled
from nonneg_vectors.curation.doubtful_labels import SHRINKING, doubts
from nonneg_vectors.storage.embeddings import Embeddings


def test_the_margins_are_those_of_a_classifier_trained_without_the_photo() -> None:
    z = photos(60, 12)
    labels = ["abc"[i % 3] for i in range(60)]
    found = doubts(sparse(z), labels)
    codes = np.array([i % 3 for i in range(60)])
    for i in range(60):
        rest = np.arange(60) != i
        x, y = z[rest].astype(float), np.eye(3)[codes[rest]]
        centre = x.mean(axis=0)
        x = x - centre
        weights = np.linalg.solve(x.T @ x + SHRINKING * 20 * np.eye(12), x.T @ (y - y.mean(axis=0)))
        scores = (z[i] - centre) @ weights + y.mean(axis=0)
        others = np.where(np.arange(3) == codes[i], -np.inf, scores)
        assert found.margin[i] == pytest.approx(others.max() - scores[codes[i]], abs=1e-5)
        assert found.other[i] == others.argmax()


def test_swapped_labels_are_found_with_the_label_that_was_there() -> None:
    z = photos(305)[:300]
    true = np.arange(300) % 6
    told = true.copy()
    swapped = np.array([3, 50, 111, 200, 250])
    told[swapped] = (true[swapped] + 2) % 6
    found = doubts(sparse(z), told.tolist())
    assert set(found.photos()[:5].tolist()) == set(swapped.tolist())
    assert [found.names[found.other[i]] for i in swapped] == true[swapped].tolist()


def test_a_label_of_a_few_photos_is_not_doubted_and_one_label_alone_is_refused() -> None:
    z = photos(60)
    labels = ["a"] * 57 + ["b"] * 3
    assert not set(doubts(sparse(z), labels).photos().tolist()) & {57, 58, 59}
    with pytest.raises(DataInvalid, match="all photos have the label a"):
        doubts(sparse(z), ["a"] * 60)


def test_folders_are_labels_where_the_photos_tell_them_apart_or_where_they_are_asked_for() -> None:
    z, themes, months = photos(240), np.arange(240) % 6, np.arange(240) // 40
    for folders, learnt in ((themes, True), (months, False)):
        names = tuple(f"{folder}/{i}.jpg" for i, folder in enumerate(folders))
        vectors = Embeddings.from_dense(z, fingerprint="0" * 16, model="m", ids=names)
        collection = Collection("a folder", vectors, [{"folder": str(folder)} for folder in folders])
        parts = [section.part for section in curate(collection, CurationOptions(("labels", "missed")))]
        assert parts == (["labels", "missed"] if learnt else [])
        assert ("do not tell their folders apart" in why_unlabelled(collection, None)) is not learnt
        asked = curate(collection, CurationOptions(("labels", "missed"), labels="folder"))
        assert [section.part for section in asked] == ["labels", "missed"]
