"""Names that captions give to columns: what proposes, what chooses and what checks."""

from __future__ import annotations

import numpy as np

from nonneg_runtime.words.names import Name, Names
from nonneg_vectors.expressions.weightings import Chance
from research.models.caption_names import Said, observed, said_in, with_observed

WORDS = ("bike", "cycle", "dog", "snow")
PHOTOS, CHOOSING = 600, np.arange(400)


def photos() -> tuple[np.ndarray, Said]:
    """Columns: dogs, dogs again, bikes or cycles, snow on the photos that choose alone, noise."""
    rng = np.random.default_rng(0)
    says = np.zeros((PHOTOS, len(WORDS)), bool)
    for word in range(len(WORDS)):
        says[word::10, word] = True
    z = rng.uniform(0, 0.1, (PHOTOS, 5)).astype(np.float32)
    z[says[:, 2], 0] += 0.5
    z[says[:, 2], 1] += 0.4
    z[says[:, 0] | says[:, 1], 2] += 0.3
    z[:400][says[:400, 3], 3] += 0.3
    return z, Said(WORDS, says, CHOOSING, np.arange(400, PHOTOS))


def named(proposed: dict[int, list[int]]) -> dict[int, Name]:
    z, said = photos()
    chance = Chance(z.mean(axis=0).astype(float), z.var(axis=0).astype(float))
    each = {column: np.array(words) for column, words in proposed.items()}
    return {name.dimension: name for name in observed(z, said, each, chance)}


def test_a_column_is_named_by_the_words_that_are_proposed_and_no_name_is_given_twice() -> None:
    found = named({0: [2, 3], 1: [2], 2: [0, 1], 4: [0, 1, 2, 3]})
    assert {column: name.name for column, name in found.items()} == {0: "dog", 2: "bike"}
    assert (found[0].precision, found[0].photos, found[0].source) == (1.0, 20, "captions")
    assert not named({0: [0, 1]})  # its photos say what was not proposed


def test_words_that_say_one_thing_are_joined() -> None:
    assert named({2: [0, 1]})[2].photos == 40  # either word


def test_a_name_that_other_photos_do_not_confirm_is_dropped() -> None:
    assert not named({3: [3]})


def test_from_its_level_on_photos_show_the_name_and_below_it_they_do_not() -> None:
    z, said = photos()
    level = named({0: [2]})[0].level
    assert level is not None
    chance = Chance(z.mean(axis=0).astype(float), z.var(axis=0).astype(float), levels=np.array([level] + [np.nan] * 4))
    shows = z[:, 0] >= chance.lines[0]
    assert said.says[shows, 2].mean() >= 0.8
    assert shows[said.says[:, 2]].all()


def test_words_of_captions_are_counted_without_grammar_and_in_the_singular() -> None:
    captions = [["A black dog with a dog"], ["two dogs run"], ["the snow"]] * 30
    said = said_in(captions, np.arange(90))
    assert said.words == ("dog", "run", "snow")
    assert said.says.sum(axis=0).tolist() == [60, 30, 30]


def test_names_from_captions_take_the_place_of_former_ones_beside_the_classes() -> None:
    beagle = {"dimension": 2, "name": "beagle", "class": 162}
    former = [{"dimension": 1, "name": "cat", "source": "captions"}, beagle]
    about = {"dimensions": 9, "precision_on": "all; of names from captions: old", "rank_on": ""}
    names = Names.model_validate({"names": former, **about})
    found = with_observed(names, [Name(dimension=4, name="dog", source="captions")], chosen="some", checked="new")
    assert [(name.dimension, name.called) for name in found.names] == [(2, "beagle (dog)"), (4, "dog")]
    assert found.precision_on == "all; of names from captions: new"
    assert "7 of 8 columns" in found.unnamed
