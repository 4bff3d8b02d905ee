"""The revisited Oxford and Paris protocols: their own AP, and what is asked of a ground truth."""

import json
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from nonneg_core.errors import DataInvalid
from research.landmarks import PROTOCOLS, area_by_trapezoids, read_ground_truth
from research.landmarks import landmarks as command


def slow_average_precision(places, relevant):
    """The published code, line by line."""
    total = 0.0
    for j, place in enumerate(places):
        before = 1.0 if place == 0 else j / place
        total += (before + (j + 1) / (place + 1)) / relevant / 2
    return total


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 5))
def test_ap_by_trapezoids_is_the_published_one(hits, missed):
    relevant = sum(hits) + missed
    if relevant:
        places = [i for i, hit in enumerate(hits) if hit]
        assert area_by_trapezoids(hits, relevant) == pytest.approx(slow_average_precision(places, relevant))


@pytest.fixture
def landmarks(photos, tmp_path):
    """Crops of photos as landmarks: four of a subject in the gallery, the fifth asks."""
    (tmp_path / "jpg").mkdir()
    subjects = sorted(path.name for path in photos.iterdir())
    gallery = [f"{subject}-{i}" for subject in subjects for i in range(4)]
    for name in [*gallery, *(f"{subject}-4" for subject in subjects)]:
        shutil.copy(photos / name.rpartition("-")[0] / f"{name}.jpg", tmp_path / "jpg")
    with Image.open(photos / "cat" / "cat-4.jpg") as image:
        box = [0, 0, *image.size]
    truth = [
        {"easy": [4 * i], "hard": [4 * i + 1, 4 * i + 2], "junk": [4 * i + 3], "bbx": box} for i in range(len(subjects))
    ]
    path = tmp_path / "gnd.json"
    path.write_text(json.dumps({"imlist": gallery, "qimlist": [f"{s}-4" for s in subjects], "gnd": truth}))
    return path


def test_landmarks_are_scored_in_three_protocols(server, landmarks):
    result = CliRunner().invoke(command, [str(landmarks), "--lengths", "2048,64", "--json", "--url", server])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["lengths"]
    assert list(found) == ["2048", "64"]
    assert set(found["2048"]) == set(PROTOCOLS)
    assert found["2048"]["medium"]["queries"] == 7
    assert found["2048"]["medium"]["mAP"] > 0.8
    assert found["2048"]["hard"]["P@1"] > 0.8  # what is easy is junk there, and out of the way
    table = CliRunner().invoke(command, [str(landmarks), "--lengths", "64", "--url", server]).stdout
    assert len(table.splitlines()) == 4


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        "no",
        '{"imlist": [], "qimlist": ["a"], "gnd": [{"easy": [3]}]}',
        '{"imlist": 3}',
        '{"imlist": ["a"], "qimlist": ["a"], "gnd": [{"easy": [0], "bbx": [1, 2, 3]}]}',
    ],
)
def test_a_ground_truth_that_cannot_be_used_is_named(tmp_path, content):
    (tmp_path / "gnd.json").write_text(content)
    with pytest.raises(DataInvalid, match=r"gnd\.json"):
        read_ground_truth(tmp_path / "gnd.json")
