"""Recall of captions and images against a slow second version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid
from nonneg_vectors.evaluation.caption_retrieval import CaptionedImage, captioned, first_partner, read_pairs, recall


def pairs_of(shown: dict[str, list[str]]) -> list[CaptionedImage]:
    return [CaptionedImage(Path(image), text) for image, texts in shown.items() for text in texts]


def slowly(asking: np.ndarray, stored: np.ndarray, partners: list[set[int]]) -> list[int]:
    places = []
    for row, right in zip(asking, partners, strict=True):
        cosines = [row @ s / max(np.linalg.norm(row) * np.linalg.norm(s), 1e-12) for s in stored]
        best = max(cosines[j] for j in right)
        places.append(sum(c >= best - 1e-7 for j, c in enumerate(cosines) if j not in right))
    return places


def test_the_place_of_the_first_partner_is_counted_both_ways() -> None:
    rng = np.random.default_rng(0)
    shown = {f"{i}.jpg": [f"text {i}", f"text {i} again", f"shared {i // 4}"] for i in range(20)}
    of = captioned(pairs_of(shown))
    assert len(of.captions) == 45  # the shared ones once each
    images, texts = np.maximum(rng.normal(size=(20, 16)), 0), np.maximum(rng.normal(size=(45, 16)), 0)
    found = recall(images.astype(np.float32), texts.astype(np.float32), of)
    few = first_partner(texts.astype(np.float32), images.astype(np.float32), of.caption, of.image, at_once=7)
    assert few.tolist() == found.text_to_image.tolist()
    partners_of_text = [{int(i) for i in of.image[of.caption == c]} for c in range(45)]
    partners_of_image = [{int(c) for c in of.caption[of.image == i]} for i in range(20)]
    assert found.text_to_image.tolist() == slowly(texts, images, partners_of_text)
    assert found.image_to_text.tolist() == slowly(images, texts, partners_of_image)
    assert {len(partners) for partners in partners_of_text} == {1, 4}
    to_image, to_text = found.hits(5)
    assert to_image.tolist() == [place < 5 for place in found.text_to_image]
    assert to_text.tolist() == [place < 5 for place in found.image_to_text]


def test_equal_and_zero_vectors_find_nothing() -> None:
    of = captioned(pairs_of({f"{i}.jpg": [f"{i}"] for i in range(9)}))
    for rows in (np.zeros((9, 4), np.float32), np.ones((9, 4), np.float32)):
        assert recall(rows, rows, of).text_to_image.tolist() == [8] * 9


def test_what_is_right_comes_first() -> None:
    rows = np.eye(3, dtype=np.float32)
    assert first_partner(rows, rows, np.arange(3), np.arange(3)).tolist() == [0, 0, 0]


def test_paths_are_relative_to_the_file_and_lines_without_a_side_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("image,caption\na.jpg,a dog\nb.jpg,\n", encoding="utf-8")
    assert read_pairs(tmp_path / "c.csv") == [CaptionedImage(tmp_path / "a.jpg", "a dog")]
    (tmp_path / "c.csv").write_text("path,label\na,b\n", encoding="utf-8")
    with pytest.raises(DataInvalid, match="has no column image"):
        read_pairs(tmp_path / "c.csv")
