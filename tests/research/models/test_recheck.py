"""Names checked again on photos of several data sets: what each photo shows, and what stays as it is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_runtime.bundle.bundle_folder import SHIPPED, open_bundle
from nonneg_runtime.words.names import Name, Names, read_names
from research.models.build_default import build_default
from research.models.naming import precisions
from research.models.recheck import rechecked
from research.models.shown_classes import NONE, TABLE, ShownClasses, imagenet_classes, read_table, shown_classes

CLASSES = imagenet_classes()
BEAGLE, KING_CRAB, ANT, TABBY = (CLASSES[wnid] for wnid in ("n02088364", "n01981276", "n02219486", "n02123045"))


def test_every_category_of_the_table_is_one_class_or_says_which_it_may_be() -> None:
    table = read_table()
    for data, shows, listed in (("pets", 25, 37), ("caltech101", 34, 99)):
        assert sum(wnid is not None for wnid, _ in table[data].values()) == shows
        assert len(table[data]) == listed
    kinds = [kind for categories in table.values() for kind in categories.values()]
    assert {wnid for wnid, _ in kinds if wnid} | {wnid for _, maybe in kinds for wnid in maybe} <= set(CLASSES)
    assert not any(wnid in maybe for wnid, maybe in kinds)


def test_the_table_names_its_wnids_in_order() -> None:
    for kinds in tomllib.loads(TABLE.read_text(encoding="utf-8")).values():
        for table in kinds.values():
            assert list(table) == sorted(table)
        assert all(maybe == sorted(maybe) for maybe in kinds["may_show"].values())


def test_a_photo_shows_the_class_of_its_wnid_or_of_its_data_sets_folder() -> None:
    paths = [
        Path("mini/n02219486/1.jpg"),
        Path("pets/beagle/1.jpg"),
        Path("caltech101/ant/1.jpg"),
        Path("caltech101/crab/1.jpg"),  # one of five classes
        Path("caltech101/okapi/1.jpg"),  # none of them
        Path("caltech101/Faces/1.jpg"),  # not in the table
        Path("others/beagle/1.jpg"),  # of no data set that is known
        Path("mini/n00000001/1.jpg"),  # none of the 1,000
    ]
    found = shown_classes(paths)
    assert found.kept.tolist() == [0, 1, 2, 3, 4]
    assert found.of.tolist() == [ANT, BEAGLE, ANT, NONE, NONE]
    assert found.unclear[3].sum() == 5
    assert found.unclear[3, KING_CRAB]
    assert not found.unclear[[0, 1, 2, 4]].any()


def test_a_photo_that_may_show_a_class_counts_neither_for_nor_against_it_and_against_others() -> None:
    of = np.array([0] * 5 + [1] * 5 + [NONE] * 5)
    codes = np.zeros((15, 2), dtype=np.float32)
    codes[:10], codes[10:] = 0.5, 1  # the last five are the strongest on both columns
    codes[5:10, 0] = codes[:5, 1] = 0
    unclear = np.zeros((15, 2), dtype=np.bool_)
    unclear[10:, 0] = True
    assert precisions(codes, of, np.array([0, 1]), unclear) == {0: (1.0, 5), 1: (0.0, 5)}
    assert precisions(codes, of, np.array([0, 1])) == {0: (0.0, 5), 1: (0.0, 5)}


def test_only_the_precisions_along_a_class_are_new() -> None:
    names = (
        Name(dimension=0, name="dog", source="captions", precision=0.8, photos=60),
        Name.model_validate({"dimension": 1, "name": "beagle", "class": BEAGLE, "rank": 2}),
        Name.model_validate({"dimension": 2, "name": "ant", "class": ANT, "precision": 0.9, "photos": 20, "rank": 1}),
    )
    shown = ShownClasses(np.arange(6), np.array([BEAGLE] * 5 + [ANT]), np.zeros((6, 1000), dtype=np.bool_))
    codes = np.tile(np.float32([[0, 1, 1]]), (6, 1))
    codes[0, 1] = 0
    held = Names(dimensions=3, precision_on="before", rank_on="one", chosen_on="others", names=names)
    found = rechecked(held, codes, shown, "now")
    assert found.names[0] == names[0]
    assert (found.names[1].precision, found.names[1].photos, found.names[1].rank) == (0.8, 5, 2)
    assert (found.names[2].precision, found.names[2].photos, found.names[2].rank) == (None, 0, 1)
    assert (found.rank_on, found.chosen_on) == ("one", "others")
    assert found.precision_on == "now; of names from captions: before"
    assert rechecked(found, codes, shown, "later").precision_on == "later; of names from captions: before"
    directions = held.model_copy(update={"names": names[1:]})
    assert rechecked(directions, codes, shown, "now").precision_on == "now"


@pytest.fixture
def evidence(real_photos: list[Image.Image], tmp_path: Path) -> Path:
    """Five photos in a breed's folder, and one in that of a class with a wnid."""
    for i, photo in enumerate(real_photos):
        folder = tmp_path / "evidence" / ("n02219486" if i == 5 else "pets/beagle")
        folder.mkdir(parents=True, exist_ok=True)
        photo.save(folder / f"{i}.jpg")
    return tmp_path / "evidence"


@pytest.mark.nightly
def test_the_command_measures_precisions_and_leaves_all_else(evidence: Path, tmp_path: Path) -> None:
    arguments = ["photo-fast", "--evidence", evidence, "--evidence-data", "six photos", "--out", tmp_path / "out"]
    result = CliRunner().invoke(build_default, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    made, before = open_bundle(tmp_path / "out" / "photo-fast"), open_bundle(SHIPPED / "photo-fast")
    assert made.manifest.fingerprint == before.manifest.fingerprint
    assert made.manifest.names is not None
    assert before.manifest.names is not None
    same = {"files", "digest", "names"}
    assert made.manifest.model_dump(exclude=same) == before.manifest.model_dump(exclude=same)
    assert made.manifest.names.stability == before.manifest.names.stability
    names, former = (read_names(bundle.path / "names.json", 2048) for bundle in (made, before))
    of_photos = former.precision_on.rpartition("names from captions: ")[2]
    assert made.manifest.names.data == f"six photos; of names from captions: {of_photos}"
    checked = [name for name in names.names if name.source == "direction" and name.precision is not None]
    assert [(name.name, name.photos) for name in checked] == [("beagle", 5)]
    assert made.manifest.names.checked == 1 + sum(name.source == "captions" for name in names.names)
    assert [name.rank for name in names.names] == [name.rank for name in former.names]
    for path in before.path.iterdir():
        if path.name not in ("names.json", "manifest.json"):
            assert (made.path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.nightly
def test_photos_that_show_no_known_class_and_a_missing_folder_are_refused(labelled: Path, tmp_path: Path) -> None:
    for arguments, error in ((["--out", tmp_path / "out"], DataInvalid), ([], ConfigInvalid)):
        asked = ["photo-fast", "--evidence", labelled, *arguments]
        assert isinstance(CliRunner().invoke(build_default, [*map(str, asked)]).exception, error)
