"""The models that come with nonneg are rebuilt to the byte, and their names hold where data sets can check them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import ConfigInvalid
from nonneg_runtime.bundle.bundle_folder import SHIPPED, shipped_names
from nonneg_runtime.words.names import read_names
from research.models.rebuild import RECORDS, plan_of, rebuild
from research.models.shown_classes import imagenet_classes, read_table

pytestmark = pytest.mark.slow


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["photo-fast", "photo"])
def test_a_rebuild_repeats_the_shipped_bytes(name: str, tmp_path: Path) -> None:
    rebuilt = rebuild(name, tmp_path / "bundle")
    shipped = SHIPPED / name
    assert {path.name for path in rebuilt.path.iterdir()} == {path.name for path in shipped.iterdir()}
    for path in rebuilt.path.iterdir():
        assert path.read_bytes() == (shipped / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", shipped_names())
def test_the_ranges_tell_nothing_of_the_machine_that_made_them(name: str) -> None:
    content = (RECORDS / f"{name}.ranges.json").read_bytes()
    assert not any(trace in content for trace in (b"site-packages", b"/home", b"/tmp", b"/usr", b"/work", b".py:"))


def test_no_other_model_is_planned() -> None:
    with pytest.raises(ConfigInvalid, match="photo, photo-fast") as refused:
        plan_of("photo-slow")
    assert refused.value.field == "name"


def test_the_best_one_can_be_made_and_does_not_come_with_nonneg() -> None:
    assert plan_of("photo-best", fitted=True).backbone == "efficientnet-lite0+lite2"
    with pytest.raises(ConfigInvalid) as refused:
        plan_of("photo-best")
    assert refused.value.fix == "--fit PHOTOS makes it"


@pytest.mark.parametrize("model", shipped_names())
def test_names_that_breeds_and_kinds_check_hold(model: str) -> None:
    number, every = imagenet_classes(), read_names(SHIPPED / model / "names.json", 2048).names
    for categories in read_table().values():
        classes = {number[wnid] for wnid, _ in categories.values() if wnid is not None}
        names = [name for name in every if name.klass in classes]
        assert len(names) >= 20
        assert all(name.photos >= 25 for name in names)
        assert np.mean([(name.precision or 0) >= 0.6 for name in names]) >= 0.95
