"""Some of a data set's images: as many as asked for, of the classes asked for, the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import View
from nonneg_training.data import Captions, Images, open_data, open_source, unseen
from nonneg_training.data.images import subset
from nonneg_training.setup.run_settings import Data


def opened(**settings: object) -> Images:
    found = open_source(Data.model_validate({"source": "digits", **settings}))
    assert isinstance(found, Images)
    return found


def test_a_limit_draws_the_same_images_each_time() -> None:
    few, again, more = opened(limit=50), opened(limit=50), opened(limit=60)
    assert len(few) == 50
    assert few.digest() == again.digest() != more.digest()
    assert len(set(few.labels)) == 10, "drawn by chance, not the first ones"
    assert len(opened(limit=10**6)) == 1438


def test_chosen_classes_are_numbered_again_in_training_and_test_images() -> None:
    data = Data(source="digits", only=("7", "2"))
    images, test = open_source(data), unseen(data)
    assert isinstance(images, Images)
    assert test is not None
    assert images.classes == test.classes == ("7", "2")
    whole = open_data("digits")
    assert np.bincount(images.labels).tolist() == [int((whole.labels == 7).sum()), int((whole.labels == 2).sum())]


def test_an_image_of_a_subset_is_the_whole_sets_image() -> None:
    whole = open_data("digits")
    few = subset(whole, limit=20, only=("3",))
    row = int(np.flatnonzero(whole.labels == 3)[0])
    threes = [few.image(i).tobytes() for i in range(len(few))]
    assert all(whole.image(int(r)).tobytes() in threes for r in few.rows)  # type: ignore[attr-defined]
    assert few.pixels([0], View(size=16)).shape == (1, 16, 16, 3)
    assert whole.labels[row] == 3


def test_a_split_is_named_behind_a_colon() -> None:
    assert len(open_data("digits:test")) == 359
    assert len(open_data("digits:train", split="test")) == 1438
    assert unseen(Data(source="digits:test")) is None


def test_pairs_of_images_and_captions_stay_pairs(tmp_path: Path) -> None:
    lines = [f"{i}.png,the number {i}" for i in range(9)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *lines]))
    few = subset(Captions(tmp_path / "captions.csv"), limit=4)
    assert isinstance(few, Captions)
    assert len(few) == len(set(few.captions)) == 4
    assert [f"the number {path.stem}" for path in few.paths] == few.captions


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"has no class 11: choose of 0, 1"):
        opened(only=["11"])
    with pytest.raises(ConfigInvalid, match=r"a stream cannot: set data\.images"):
        open_source(Data(source="https://host/{0..3}.tar", limit=5))
