"""Evaluation beyond the metrics: lengths, selections, data sets, uncertainty, probe, comparison, plots."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg_cli.table import nonneg
from nonneg_client import Client, Embeddings
from nonneg_core.errors import ConfigInvalid, DataInvalid, FingerprintMismatch, ParameterInvalid, StorageFailed
from nonneg_vectors.evaluation.labelled_images import csv_file, image_folder
from nonneg_vectors.evaluation.linear_probes import halves, probe
from nonneg_vectors.evaluation.ranking import retrieval
from nonneg_vectors.evaluation.retrieval import Length, by_length, grid, split_off
from nonneg_vectors.evaluation.uncertainty import interval, paired, sign_flip


@pytest.fixture(scope="module")
def labelled():
    """Vectors that cluster by label."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 20)
    centres = np.maximum(rng.normal(size=(6, 64)), 0)
    z = np.maximum(centres[labels] + rng.normal(size=(120, 64)), 0) * (np.arange(64) < 60)
    return Embeddings.from_dense(z, fingerprint="f", ids=tuple(map(str, range(120)))).shorten(), labels


def test_each_length_is_scored_as_shortened_vectors_are(labelled):
    embeddings, labels = labelled
    for row in by_length(embeddings, labels, lengths=[64, 16, Length(32, 4)], k=10):
        short = embeddings.shorten(row.length.dimensions, row.length.top_k)
        assert row.report.means() == pytest.approx(retrieval(short.numpy(), labels, k=10).means(), abs=1e-9)
        assert row.mean_nnz == pytest.approx(short.nnz.mean())
        assert row.zero_share == pytest.approx((short.nnz == 0).mean())
        assert row.live == min(60, row.length.dimensions)


def test_gallery_and_queries_may_be_apart(labelled):
    embeddings, labels = labelled
    (row,) = by_length(embeddings[20:], labels[20:], embeddings[:20], labels[:20] + 1, lengths=[64], k=5)
    expected = retrieval(embeddings.numpy()[20:], labels[20:], embeddings.numpy()[:20], labels[:20] + 1, k=5)
    assert row.report.means() == expected.means()


def test_the_grid_begins_with_all_dimensions():
    assert [length.dimensions for length in grid(1280)] == [1280, 1024, 512, 256, 128, 64, 32]
    assert [length.dimensions for length in grid(32)] == [32]


def test_selections_differ_below_full_length_and_pca_turns(labelled):
    embeddings, labels = labelled
    kept, fit = split_off(len(embeddings))
    rows = by_length(
        embeddings[kept], labels[kept], lengths=[64, 8, Length(8, 2)], others=embeddings[fit],
        selections=["prefix", "activation", "random", "variance", "pca"],
    )  # fmt: skip
    found = {(row.selection, str(row.length)): row for row in rows}
    assert len(found) == 14  # the largest of signed numbers are not asked for
    full = found["prefix", "64"].report.means()
    for name in ("activation", "random", "variance"):  # all columns in another order are the same vectors
        assert found[name, "64"].report.means() == pytest.approx(full, abs=0.02)
        assert found[name, "8"].report.means() != found["prefix", "8"].report.means()
    assert found["pca", "8"].mean_nnz == 8


def test_images_to_fit_on_are_others_than_those_evaluated():
    kept, fit = split_off(50)
    assert sorted([*kept, *fit]) == list(range(50))
    assert len(fit) == 10


def test_what_cannot_be_evaluated_is_refused(labelled):
    embeddings, labels = labelled
    with pytest.raises(ParameterInvalid):
        by_length(embeddings, labels, lengths=[65])
    with pytest.raises(ConfigInvalid, match="selection=best is not known"):
        by_length(embeddings, labels, selections=["best"])
    with pytest.raises(DataInvalid, match="other images"):
        by_length(embeddings, labels, selections=["pca"])
    with pytest.raises(DataInvalid, match="holds 0 vectors"):
        by_length(embeddings[:0], [])
    with pytest.raises(FingerprintMismatch):
        by_length(embeddings, labels, Embeddings.from_dense(np.ones((1, 64)), fingerprint="g"), [0])


# Uncertainty


def test_the_interval_is_scipys_percentile_bootstrap():
    pytest.importorskip("scipy", minversion="1.15")  # before, its seed had another name
    from scipy.stats import bootstrap

    values = np.random.default_rng(1).random(80) ** 2
    found = interval(values, draws=4000)
    expected = bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=0).confidence_interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.01)
    assert found.low < found.mean < found.high


def test_the_same_seed_gives_the_same_interval_whatever_the_block():
    values = np.random.default_rng(2).random(50)
    assert interval(values, block=500) == interval(values)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9))
def test_sign_flips_agree_with_trying_every_sign(differences):
    d = np.array(differences)
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(d))).reshape(len(d), -1).T
    exact = (np.abs(signs @ d) >= abs(d.sum()) - 1e-12).mean()
    assert sign_flip(d) == pytest.approx(exact, abs=0.02)


def test_a_difference_of_nothing_does_not_count():
    found = paired(np.ones(20), np.ones(20))
    assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_clear_difference_is_found():
    a = np.random.default_rng(3).random(200)
    found = paired(a, a + 0.1 + 0.05 * np.random.default_rng(4).random(200))
    assert 0.1 < found.low < found.high < 0.15
    assert found.p < 0.001


def test_other_queries_are_not_paired():
    with pytest.raises(DataInvalid):
        paired(np.ones(3), np.ones(4))


# Probe


def test_the_probe_is_scikit_learns_ridge(labelled):
    from sklearn.linear_model import Ridge

    embeddings, labels = labelled
    teach, ask = halves(labels)
    z = embeddings.numpy()
    ridge = Ridge(alpha=1.0).fit(z[teach], np.eye(6)[labels[teach]])
    expected = (ridge.predict(z[ask]).argmax(axis=1) == labels[ask]).mean()
    assert probe(z[teach], labels[teach], z[ask], labels[ask]) == pytest.approx(expected)
    assert expected > 0.8


def test_halves_share_every_label_and_no_image():
    labels = ["a"] * 7 + ["b"] * 4 + ["c"] * 2
    teach, ask = halves(labels)
    assert sorted([*teach, *ask]) == list(range(13))
    assert {labels[i] for i in teach} == {labels[i] for i in ask} == {"a", "b", "c"}


# Data sets


def write_csv(folder: Path, text: str) -> Path:
    (folder / "data.csv").write_text(text)
    return folder / "data.csv"


def test_a_csv_names_paths_labels_and_who_asks(tmp_path):
    data = csv_file(write_csv(tmp_path, "path,label,split\na.jpg,cat,query\nb/c.jpg,cat,gallery\nd.jpg,dog,train\n"))
    assert data.paths == (tmp_path / "a.jpg", tmp_path / "b" / "c.jpg", tmp_path / "d.jpg")
    assert data.labels == ("cat", "cat", "dog")
    assert data.asks == (True, False, False)
    assert data.labels_of((str(tmp_path / "d.jpg"),)) == ["dog"]
    assert data.asks_of((str(tmp_path / "d.jpg"), str(tmp_path / "a.jpg"))) == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column path"),
        ("file,label\na,b\n", "no column path"),
        ("path,class\na,b\n", "no column label"),
        ("path,label\na,x\na,y\n", "twice"),
        ("path,label\na,x\nb,x\n", "one label only"),
        ("path,label,split\na,x,maybe\nb,y,query\n", "not a split"),
        ("path,label,split\na,x,query\nb,y,query\n", "not both"),
    ],
)
def test_a_csv_that_cannot_be_used_is_explained(tmp_path, text, message):
    with pytest.raises(DataInvalid, match=message):
        csv_file(write_csv(tmp_path, text))


def test_a_csv_that_is_not_there_is_said(tmp_path):
    with pytest.raises(DataInvalid, match="cannot be read"):
        csv_file(tmp_path / "none.csv")


def test_the_folders_name_is_the_label_however_deep_the_image_lies(photos):
    data = image_folder(photos)
    assert set(data.labels) == {path.name for path in photos.iterdir()}


def test_vectors_of_strange_images_have_no_label(photos):
    with pytest.raises(DataInvalid, match="none of the labelled images"):
        image_folder(photos).labels_of(("elsewhere.jpg",))


# Commands


@pytest.fixture(scope="module")
def run(server):
    def invoke(*arguments: object):
        return CliRunner().invoke(nonneg, [str(a) for a in arguments], env={"NONNEG_URL": server})

    return invoke


@pytest.mark.slow
def test_selections_intervals_and_probe_stand_in_the_table(run, photos):
    result = run(
        "evaluate", photos, "--lengths", "64", "--selections", "prefix,random,variance,pca", "--intervals", "--probe"
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[1].split()[:2] == ["selection", "length"]
    assert "probe" in lines[1]
    assert [line.split()[0] for line in lines[2:6]] == ["prefix", "random", "variance", "pca"]
    assert "[" in lines[2]
    assert "a fifth of the images" in result.stdout


@pytest.mark.slow
def test_every_selection_is_probed(run, photos):
    given = ["--lengths", "64,1280", "--selections", "prefix,activation,random,variance,pca", "--probe", "--json"]
    rows = json.loads(run("evaluate", photos, *given).stdout)["rows"]
    assert len(rows) == 10
    assert all(0 <= row["probe"] <= 1 for row in rows)
    whole = [row["probe"] for row in rows if row["dimensions"] == 1280 and row["selection"] != "pca"]
    assert len(set(whole)) == 1, "all of the columns in another order are the same vectors"


def test_intervals_stand_in_the_json(run, photos):
    row = json.loads(run("evaluate", photos, "--lengths", "32", "--intervals", "--json").stdout)["rows"][0]
    low, high = row["intervals"]["P@10"]
    assert low <= row["P@10"] <= high


def test_a_file_of_vectors_is_evaluated_without_a_server(run, client, photos, tmp_path):
    client.embed(photos).save(tmp_path / "photos.npz")
    arguments = ["evaluate", photos, "--lengths", "256", "--json"]
    by_file = json.loads(run(*arguments, "--vectors", tmp_path / "photos.npz", "--url", "http://127.0.0.1:9").stdout)
    by_server = json.loads(run(*arguments).stdout)
    assert by_file["rows"] == by_server["rows"]


def test_a_file_of_vectors_is_of_these_photos_wherever_they_were_embedded_from(run, photos, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(photos)
    monkeypatch.chdir(photos)
    run("embed", photos.parent / photos.name, "-o", tmp_path / "photos.npz")
    rows = ["path,label", *(f"{path.relative_to(photos)},{path.parent.name}" for path in photos.rglob("*.jpg"))]
    found = []
    for data in (photos, "../" + photos.name, tmp_path / "link"):
        result = run("evaluate", data, "--lengths", "64", "--json", "--vectors", tmp_path / "photos.npz")
        found.append(json.loads(result.stdout)["rows"])
    (tmp_path / "moved").mkdir()
    shutil.copytree(photos, tmp_path / "moved" / "photos")
    (tmp_path / "moved" / "photos" / "labels.csv").write_text("\n".join(rows))
    (tmp_path / "photos.npz.origins.jsonl").unlink()
    data = tmp_path / "moved" / "photos" / "labels.csv"
    result = run("evaluate", data, "--lengths", "64", "--json", "--vectors", tmp_path / "photos.npz")
    found.append(json.loads(result.stdout)["rows"])

    assert [rows[0]["P@1"] for rows in found] == [found[0][0]["P@1"]] * 4
    refused = run("evaluate", photos / "cat", "--vectors", tmp_path / "photos.npz").exception
    assert isinstance(refused, DataInvalid)


@pytest.mark.parametrize(
    "options",
    [["--lengths", "5000"], ["--selections", "prefix,best"], ["--save-vectors", "kept.jpg"], ["--missed", "x.txt"]],
)
def test_what_cannot_be_evaluated_is_told_before_anything_is_embedded(server, photos, options, monkeypatch):
    def embed(*_: object, **__: object):
        raise AssertionError("embedded")

    monkeypatch.setattr(Client, "embed", embed)
    result = CliRunner().invoke(nonneg, ["evaluate", str(photos), "--url", server, *options])
    assert isinstance(result.exception, (ParameterInvalid, ConfigInvalid))


def test_the_vectors_of_an_evaluation_can_be_kept_and_updated(run, photos, tmp_path):
    out = tmp_path / "photos.npz"
    measured = run("evaluate", photos, "--lengths", "64", "--json", "--save-vectors", out)
    again = run("evaluate", photos, "--lengths", "64", "--json", "--vectors", out, "--url", "http://127.0.0.1:9")
    assert json.loads(again.stdout)["rows"] == json.loads(measured.stdout)["rows"]
    before = out.read_bytes(), out.stat().st_mtime_ns
    updated = run("embed", photos, "-o", out, "--update")
    assert "0 new, 0 changed, 0 gone, 35 unchanged" in updated.stderr
    assert (updated.exit_code, out.read_bytes(), out.stat().st_mtime_ns) == (0, *before)
    assert isinstance(run("evaluate", photos, "--save-vectors", out).exception, StorageFailed)


def test_a_csv_with_a_split_is_evaluated_by_it(run, photos, tmp_path):
    files = sorted(photos.rglob("*.jpg"))
    rows = [f"{path},{path.parent.name},{'query' if path.stem.endswith('0') else 'gallery'}" for path in files]
    data = write_csv(tmp_path, "\n".join(["path,label,split", *rows]))
    result = json.loads(run("evaluate", data, "--lengths", "256", "--json").stdout)
    assert (result["queries"], result["images"]) == (7, 35)
    assert result["rows"][0]["P@1"] == 1


@pytest.fixture(scope="module")
def mislabelled(photos, tmp_path_factory):
    """A CSV in which one photo of the cat is called a rocket, and all photos numbered 0 ask."""
    files = sorted(photos.rglob("*.jpg"))
    labels = {path: path.parent.name if path.name != "cat-0.jpg" else "rocket" for path in files}
    rows = [f"{path},{label},{'query' if path.stem.endswith('0') else 'gallery'}" for path, label in labels.items()]
    return write_csv(tmp_path_factory.mktemp("mislabelled"), "\n".join(["path,label,split", *rows]))


def test_what_was_missed_is_listed_with_what_took_its_place(run, mislabelled, tmp_path):
    out = tmp_path / "missed.csv"
    result = run("evaluate", mislabelled, "--lengths", "256", "--missed", out, "--json")
    assert "missed.csv: 1 of 7 queries have no right first hit at 256" in result.stderr
    assert json.loads(result.stdout)["rows"][0]["P@1"] == pytest.approx(6 / 7)
    query, *taken = csv.DictReader(out.read_text().splitlines())
    assert (Path(query["path"]).name, query["action"]) == ("cat-0.jpg", "review")
    place = int(re.fullmatch(r"rocket: first of its label at place (\d+)", query["why"])[1])
    assert [line["why"] for line in taken[:4]] == [f"place {i}: cat" for i in (1, 2, 3, 4)]
    assert len(taken) == min(5, place - 1)
    assert all(Path(line["of"]).name == "cat-0.jpg" and float(line["cosine"]) > 0 for line in taken)


def test_what_was_missed_is_shown_as_a_sheet_and_may_be_nothing(run, photos, mislabelled, tmp_path):
    assert run("evaluate", mislabelled, "--lengths", "256", "--missed", tmp_path / "missed.html").exit_code == 0
    page = (tmp_path / "missed.html").read_text()
    assert "rocket: first of its label at place" in page
    assert page.count("data:image/jpeg;base64,") > 4
    right = run("evaluate", photos, "--missed", tmp_path / "none.csv")
    assert "none.csv: 0 of 35 queries" in right.stderr
    assert len((tmp_path / "none.csv").read_text().splitlines()) == 1


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_plot_is_drawn(run, photos, tmp_path, suffix):
    picture = tmp_path / f"quality{suffix}"
    assert run("evaluate", photos, "--selections", "prefix,random", "--plot", picture).exit_code == 0
    assert picture.stat().st_size > 5000
    assert isinstance(run("evaluate", photos, "--plot", tmp_path / "x.txt").exception, ConfigInvalid)


def test_compare_tests_two_lengths_on_the_same_queries(run, photos):
    result = run("compare", photos, "2048", "8:2", "--json")
    assert result.exit_code == 0, result.output
    compared = json.loads(result.stdout)
    assert compared["queries"] == 35
    found = compared["metrics"]["P@10"]
    assert found["mean"] == pytest.approx(found["b"] - found["a"])
    assert found["high"] < 0
    assert found["p"] < 0.01
    assert compared["named_dimensions"]["a"] >= 800 > compared["named_dimensions"]["b"]
    lines = run("compare", photos, "2048", "2048").stdout.splitlines()
    assert re.fullmatch(r"dimensions with a name: A (\d+) of 2048, B \1 of 2048", lines[-1])
    assert lines[1].split()[:3] == ["metric", "A", "B"]
    assert lines[2].split()[-1] == "1.0000"


def test_compare_says_what_a_collection_takes_in_bytes_and_in_hours_where_something_was_embedded(
    run, client, photos, tmp_path
):
    few = tmp_path / "few"
    for label in ("cat", "rocket"):
        shutil.copytree(photos / label, few / label)
    whole = client.embed(few)
    whole.save(tmp_path / "stored.npz")
    arguments = ("compare", few, f"{tmp_path}/stored.npz", "2048/64", "--images", photos)
    costs = json.loads(run(*arguments, "--json").stdout)["costs"]
    assert costs["a"] == {"photos": 35, "bytes": round(35 * 8 * whole.nnz.mean()), "hours": None}
    assert costs["b"]["bytes"] == 35 * 8 * 64
    assert 0 < costs["b"]["hours"] < 1
    lines = run(*arguments).stdout.splitlines()
    assert re.search(r"under A: 35 photos, 0\.\d MB of sparse vectors, embedded before", lines[-2])
    assert re.search(r"under B: 35 photos, 0\.0 MB of sparse vectors, \S+ h to embed", lines[-1])


def test_compare_refuses_a_length_that_is_not_to_be_had_before_it_embeds(run, photos, tmp_path, random_embeddings):
    random_embeddings(3, 32).save(tmp_path / "short.npz")
    for label in ("cat", "rocket"):
        shutil.copytree(photos / label, tmp_path / "set" / label)
    (tmp_path / "set" / "cat" / "broken.jpg").write_bytes(b"no image")
    assert "skipped" in run("compare", tmp_path / "set", "64", "32").stderr  # so it shows that images were embedded
    for sides in (("64", "9999"), ("64", f"{tmp_path}/short.npz@64")):
        refused = run("compare", tmp_path / "set", *sides)
        assert isinstance(refused.exception, ParameterInvalid)
        assert "skipped" not in refused.stderr


def test_compare_takes_files_of_two_models(run, client, photos, random_embeddings, tmp_path):
    real = client.embed(photos)
    real.save(tmp_path / "real.npz")
    random_embeddings(35, 32).named(real.ids).save(tmp_path / "random.npz")
    result = run("compare", photos, f"{tmp_path}/random.npz@16", f"{tmp_path}/real.npz", "--json")
    assert json.loads(result.stdout)["metrics"]["P@1"]["low"] > 0.3


@pytest.mark.parametrize("sides", [("2048", "foo"), ("2048", "x.npz@y"), ("a@b", "5")])
def test_compare_says_what_it_cannot_read_before_the_work(run, photos, sides):
    assert run("compare", photos, *sides).exit_code == 2
