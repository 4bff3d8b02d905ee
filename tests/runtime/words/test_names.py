"""names.json: written a name a line, read back, and refused beside another model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nonneg_core.errors import BundleInvalid
from nonneg_runtime.words.names import Name, Names, read_names

CHECKED = {"precision": 0.9, "photos": 20}
TENCH = Name.model_validate({"dimension": 7, "name": "tench", "class": 0, "faithfulness": 0.6, **CHECKED})
NEWT = Name.model_validate({"dimension": 8, "name": "newt", "class": 26, "faithfulness": 0.5, "rank": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    names = Names(dimensions=9, precision_on="some photos", rank_on="one photo", names=(TENCH, NEWT))
    names.write(tmp_path / "names.json")
    return tmp_path / "names.json"


def test_names_are_read_back(path: Path) -> None:
    assert read_names(path, 9).names == (TENCH, NEWT)
    record = json.loads(path.read_text())
    rank = {"dimension": 8, "name": "newt", "class": 26, "faithfulness": 0.5, "photos": 0, "rank": 1}
    assert record["names"][1] == rank


def test_names_of_a_model_with_other_dimensions_are_refused(path: Path) -> None:
    with pytest.raises(BundleInvalid, match="with 9, not 512") as refused:
        read_names(path, 512)
    assert refused.value.field == "names"


def test_a_file_that_holds_no_names_is_named(tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text("{}")
    with pytest.raises(BundleInvalid, match="holds no names"):
        read_names(tmp_path / "names.json", 3)
