"""Everyday words from WordNet beside the names of classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nonneg_core.errors import DataInvalid
from nonneg_runtime.words.names import Names
from research.models.shipped_names import (
    WORDNET,
    common_name,
    everyday,
    read_synsets,
    read_table,
    with_common_words,
)


def test_an_everyday_word_is_the_nearest_one_above_and_not_one_that_the_name_says_already() -> None:
    above = {
        "n1": ("tabby", ("n2",)),
        "n2": ("house cat", ("n3", "n4")),
        "n3": ("cat", ("n5",)),
        "n4": ("pet", ("n5",)),
    }
    above["n5"] = ("animal", ())
    assert everyday(above, "n1") == ["cat", "animal"]
    assert common_name("tabby", ["cat", "animal"]) == "cat"
    assert common_name("tabby cat", ["cat", "animal"]) == ""
    assert common_name("altar", []) == ""


def test_the_table_has_every_class_and_is_what_wordnet_says() -> None:
    table = read_table()
    assert len(table) == 1000
    assert table["n02088364"][:2] == ["dog", "animal"]  # a beagle
    if not WORDNET.is_dir():
        pytest.skip("WordNet is not installed here")
    synsets = read_synsets(WORDNET)
    assert {wnid: everyday(synsets, wnid) for wnid in table} == table


def test_a_folder_without_wordnet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match=r"lacks WordNet's data\.noun"):
        read_synsets(tmp_path)
    assert json.dumps(read_table())


def test_two_classes_of_one_label_are_told_apart() -> None:
    wnids = sorted(read_table())
    twins = {"cardigan": "n02963159", "Cardigan": "n02113186"}
    names = [{"dimension": d, "name": n, "class": wnids.index(w)} for d, (n, w) in enumerate(twins.items())]
    about = {"dimensions": 2, "precision_on": "", "rank_on": ""}
    held = with_common_words(Names.model_validate({"names": names, **about}))
    assert [name.name for name in held.names] == ["cardigan", "Cardigan Welsh corgi"]
