"""`nonneg diff`: planted differences are named with the photos that show them, and equal folders differ in nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from nonneg_client import Embeddings
from nonneg_core.errors import DataInvalid, FingerprintMismatch
from nonneg_vectors.curation.collection import Collection
from nonneg_vectors.curation.distinguish import distinguish

SNOW, CARS = 7, 11


def usual(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = np.maximum(rng.normal(size=(n, 40)) - 0.8, 0)
    z[:, [SNOW, CARS]] *= rng.random((n, 2)) < 0.2
    return z


@pytest.fixture
def months(tmp_path) -> tuple[Path, Path]:
    """Of the second month's photos a tenth more show dimension 7, and none shows dimension 11."""
    first, second = usual(400, 1), usual(500, 2)
    second[:50, SNOW] = 2
    second[:, CARS] = 0
    paths = []
    for name, z in (("may", first), ("june", second)):
        ids = tuple(f"{name}/{i}.jpg" for i in range(len(z)))
        paths.append(tmp_path / f"{name}.npz")
        Embeddings.from_dense(z, fingerprint="0" * 32, ids=ids).shorten().save(paths[-1])
    return paths[0], paths[1]


def test_what_came_and_what_went_is_named_with_photos_that_show_it(run, months):
    found = json.loads(run("diff", *months, "--json").stdout)
    rows = {row["dimension"]: row for row in found["rows"]}
    assert {SNOW, CARS} <= set(rows)
    assert len(rows) <= 4
    assert (rows[SNOW]["more in"], rows[CARS]["more in"]) == ("B", "A")
    assert rows[SNOW]["times low"] > 1.5
    assert rows[CARS]["times"] == 0
    assert rows[CARS]["share B"] == 0
    assert rows[SNOW]["low"] > 0 > rows[CARS]["high"]
    shown = {row["dimension"]: group["findings"] for row, group in zip(found["rows"], found["groups"], strict=True)}
    assert all(f["image"].startswith("june/") for f in shown[SNOW])
    assert {int(Path(f["image"]).stem) for f in shown[SNOW]} <= set(range(50))
    assert all(f["image"].startswith("may/") for f in shown[CARS])


def test_the_words_the_csv_and_the_sheet_say_the_same(run, months, tmp_path):
    result = run("diff", *months, "--csv", tmp_path / "d.csv", "--html", tmp_path / "d.html")
    more, less = result.stdout.split("less in B:")
    assert "dim 7: " in more.split("more in B:")[1]
    assert "dim 11: gone, before in" in less
    rows = list(csv.DictReader(io.StringIO((tmp_path / "d.csv").read_text())))
    assert {int(row["dimension"]) for row in rows} >= {SNOW, CARS}
    assert "dim 7: " in (tmp_path / "d.html").read_text()


def test_names_stand_in_place_of_numbers(months):
    a, b = (Collection(str(path), Embeddings.load(path), [{}] * 500) for path in months)
    assert distinguish(a, b, {}).rows[0][0] == SNOW  # by effect
    assert distinguish(a, b, {CARS: "cars"}).groups[0].title.startswith("cars: ")


def test_whole_vectors_are_cut_as_those_of_which_less_is_stored_before_they_are_compared():
    rng = np.random.default_rng(0)
    z = np.maximum(rng.normal(size=(1600, 200)) - np.linspace(0, 1.5, 200), 0)
    made = Embeddings.from_dense(z, fingerprint="0" * 32, ids=tuple(map(str, range(1600)))).shorten()
    halves = (made[:800], made[800:].shorten(top_k=20))
    for one, other in (halves, halves[::-1]):
        a, b = (Collection(f"{v.nnz.max()} kept", v, [{}] * 800) for v in (one, other))
        section = distinguish(a, b, {})
        assert section.rows == ()
        assert "Only the 20 largest entries of each vector are compared, as 20 kept stores no more" in section.notes[0]


def test_a_collection_does_not_differ_from_itself(run, months):
    result = run("diff", months[0], months[0])
    assert "Nothing distinguishes them" in result.stdout


def test_parts_of_one_index_are_compared_by_conditions(run, months, tmp_path):
    from nonneg_client.search import Index

    both = Embeddings.concatenate([Embeddings.load(path) for path in months])
    with Index.open(tmp_path / "x.index", like=both) as index:
        index.add(both, [{"month": 5 + (i >= 400)} for i in range(len(both))])
    where = ["--where-a", "month=5", "--where-b", "month=6"]
    rows = json.loads(run("diff", tmp_path / "x.index", tmp_path / "x.index", *where, "--json").stdout)["rows"]
    assert {SNOW, CARS} <= {row["dimension"] for row in rows}


def test_two_folders_of_photos_are_embedded_and_compared(run, folder):
    result = run("diff", folder / "cat", folder / "dog", "--bundle", "default", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["part"] == "differences"


def test_too_few_photos_and_another_model_are_refused(run, months, tmp_path):
    few = Embeddings.load(months[0])[:5]
    few.save(tmp_path / "few.npz")
    assert isinstance(run("diff", months[0], tmp_path / "few.npz").exception, DataInvalid)
    other = Embeddings.from_dense(usual(20, 3), fingerprint="1" * 32, ids=tuple(map(str, range(20)))).shorten()
    other.save(tmp_path / "other.npz")
    assert isinstance(run("diff", months[0], tmp_path / "other.npz").exception, FingerprintMismatch)
    assert "no image of the index has a field colour" in str(run("diff", *months, "--where-a", "colour=red").exception)


def test_the_names_of_the_default_model_are_used_for_its_vectors_and_for_no_others():
    from nonneg_client.model_of_vectors import names_of
    from nonneg_runtime.bundle.bundle_folder import DEFAULT, SHIPPED
    from nonneg_runtime.bundle.manifest import read_manifest

    for model in ("photo", "photo-fast"):
        fingerprint = read_manifest(SHIPPED / model).fingerprint
        assert "tench" in names_of(fingerprint).values()
        assert names_of(fingerprint, model) == names_of(fingerprint)
    assert names_of("0" * 32) == {}
    with pytest.raises(FingerprintMismatch):
        names_of("0" * 32, str(DEFAULT))
