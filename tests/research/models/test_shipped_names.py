"""Names from what the strongest photos of a column show, and everyday words from WordNet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid
from nonneg_runtime.words.names import Names
from research.models.shipped_names import (
    WORDNET,
    common_name,
    everyday,
    observed_names,
    read_synsets,
    read_table,
    with_installed_words,
)

SHOWN = [["beagle", "dog", "animal"]] * 40 + [["pug", "dog", "animal"]] * 40 + [["cab", "car"]] * 40 + [["oak"]] * 100
SHOWN += [["cat", "animal"]] * 20


def codes(seed: int) -> np.ndarray:
    """Columns: dogs, beagles, cabs, noise, nothing, dogs on the even photos alone."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(0, 0.5, (240, 6))
    z[:80, 0] += 1
    z[:40, 1] += 1
    z[80:120, 2] += 1
    z[:, 4] = 0
    z[:80:2, 5] += 1
    z[121::2, 5] += 1
    return z


def test_a_column_is_named_by_the_rarest_of_what_its_strongest_photos_show() -> None:
    found = {one.column: one for one in observed_names(codes(0), SHOWN, codes(1), SHOWN)}
    assert {column: one.name for column, one in found.items()} == {0: "dog", 1: "beagle", 2: "cab"}
    assert found[0].precision == 1
    assert (found[0].photos, found[1].photos) == (80, 40)


def test_a_name_that_other_photos_do_not_confirm_is_dropped() -> None:
    checking = codes(1)
    checking[:, [0, 1]] = checking[:, [1, 3]]
    names = {one.column: one.name for one in observed_names(codes(0), SHOWN, checking, SHOWN)}
    assert names == {0: "dog", 2: "cab"}
    assert not observed_names(codes(0), SHOWN, codes(1)[:, ::-1] * 0, SHOWN)


def test_what_most_photos_show_names_nothing() -> None:
    shown = [["beagle", "animal"]] * 40 + [["cat", "animal"]] * 200
    assert all(one.name != "animal" for one in observed_names(codes(0), shown, codes(1), shown))
    assert not observed_names(codes(0), [["dog"]] * 240, codes(1), [["dog"]] * 240)  # photos of one class only


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


def test_a_head_that_is_laid_out_again_keeps_the_words_and_the_names_of_its_front() -> None:
    shared = {"format": "nonneg-names-1", "dimensions": 9, "rank_on": ""}
    beagle, cat = {"name": "beagle", "class": 1}, {"name": "cat", "class": 2}
    seen = [{"dimension": d, "name": "mostly dog", "source": "photos", "precision": 0.7} for d in (1, 6)]
    old = [*seen, {"dimension": 7, "common": "dog", **beagle}, {"dimension": 8, **cat}]
    installed = Names.model_validate({"names": old, "precision_on": "all; of names from photos: some", **shared})
    new = [{"dimension": 4, **cat}, {"dimension": 5, **beagle}]
    made = Names.model_validate({"names": new, "precision_on": "others", **shared})
    found = with_installed_words(made, installed, 3)
    assert [(name.dimension, name.called) for name in found.names] == [
        (1, "mostly dog"), (4, "cat"), (5, "beagle (dog)"),
    ]  # fmt: skip
    assert found.precision_on == "others; of names from photos: some"
    assert "6 of 7 columns" in found.unnamed
