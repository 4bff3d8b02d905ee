"""`nonneg index` and `nonneg search`, and what they write."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import socket

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from nonneg_cli.table import nonneg
from nonneg_client import Client
from nonneg_client.commands.contact_sheets import write_sheet
from nonneg_client.model_of_vectors import names_of
from nonneg_client.search import Index
from nonneg_core.errors import (
    ConfigInvalid,
    ConnectionFailed,
    DataInvalid,
    ExpressionInvalid,
    FingerprintMismatch,
    ModelNotFound,
)
from nonneg_vectors.search.query_and_hits import Hit


@pytest.fixture(scope="module")
def run(server):
    def invoke(*arguments: object):
        return CliRunner().invoke(nonneg, [str(a) for a in arguments], env={"NONNEG_URL": server})

    return invoke


@pytest.fixture(scope="module")
def made(run, photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "photos.index"
    result = run("index", photos, "-o", out)
    assert result.exit_code == 0, result.output
    assert "35 images, 2048 dimensions" in result.stdout
    return out


def test_a_photo_finds_itself_and_its_likes_with_reasons(run, made, photos):
    result = run("search", made, photos / "cat" / "cat-0.jpg", "-k", 5, "--json")
    hits = json.loads(result.stdout)["hits"]
    assert hits[0]["id"] == "cat/cat-0.jpg"
    assert hits[0]["score"] == pytest.approx(1, abs=1e-4)
    assert {hit["payload"]["folder"] for hit in hits} == {"cat"}
    assert all(len(hit["reasons"]) == 5 for hit in hits)


def test_a_table_names_scores_paths_and_dimensions(run, made, photos):
    lines = run("search", made, photos / "cat" / "cat-0.jpg", "-k", 3).stdout.splitlines()
    assert lines[0].split("  ")[0] == "score"
    assert len(lines) == 4
    assert re.search(r"1\.000 .*cat-0\.jpg +[\w ]+ 0\.\d{3}, [\w ]+ 0\.\d{3}", lines[1])


def test_reasons_have_the_names_that_the_model_gives_its_dimensions(run, made, photos):
    query = photos / "motorcycle" / "motorcycle-0.jpg"
    names = names_of(Index.open(made).description.fingerprint)
    hits = json.loads(run("search", made, query, "-k", 5, "--json").stdout)["hits"]
    called = {int(d): name for hit in hits for d, name in hit["names"].items()}
    assert called
    assert called.items() <= {d: names[d] for hit in hits for d, _ in hit["reasons"] if d in names}.items()
    assert next(iter(called.values())) in run("search", made, query, "-k", 5).stdout


def test_names_of_another_model_are_refused_and_ones_own_are_taken(run, made, photos):
    other = run("search", made, "--more", "17", "--bundle", "photo-fast")
    assert isinstance(other.exception, FingerprintMismatch)
    with Index.open(made, names={17: "stripes"}) as index:
        (hit, *_) = index.by_dimensions({17: 1.0})
    assert hit.reasons_text() == f"stripes {hit.score:.3f}"
    assert run("search", made, "--more", "17", "--bundle", "photo").exit_code == 0


def test_a_folder_of_queries_that_grows_meanwhile_is_listed_once(run, made, photos, tmp_path, monkeypatch):
    queries = tmp_path / "queries"
    shutil.copytree(photos / "cat", queries)
    embed = Client.embed

    def growing(self, *arguments, **options):
        vectors = embed(self, *arguments, **options)
        shutil.copy(photos / "coffee" / "coffee-0.jpg", queries / "a-new-one.jpg")
        return vectors

    monkeypatch.setattr(Client, "embed", growing)
    result = run("search", made, queries, "-k", 1, "--json")
    assert result.exit_code == 0, result.exception
    answers = json.loads(result.stdout)["queries"]
    assert [answer["hits"][0]["id"] for answer in answers] == [f"cat/cat-{i}.jpg" for i in range(5)]


def test_a_sheets_bars_are_on_one_scale_and_named(tmp_path):
    hits = [Hit("a.jpg", 0.9, {}, ((3, 0.5), (7, 0.25)), {3: "<tabby>"}), Hit("b.jpg", 0.2, {}, ((3, 0.1),))]
    write_sheet(tmp_path / "s.html", "t", hits)
    page = (tmp_path / "s.html").read_text()
    assert [int(width) for width in re.findall(r"width:(\d+)%\"></i>", page)] == [100, 50, 20]
    assert "&lt;tabby&gt;" in page
    assert "dim 7" in page
    assert "the longest is 0.500" in page


def test_an_expression_finds_what_it_says_whether_or_not_a_model_is_needed(run, made, photos):
    cat, coffee = photos / "cat" / "cat-0.jpg", photos / "coffee" / "coffee-0.jpg"
    hits = json.loads(run("search", made, f"{cat} - {coffee}", "-k", 4, "--exclude-self", "--json").stdout)["hits"]
    assert {hit["payload"]["folder"] for hit in hits} == {"cat"}
    assert not {hit["id"] for hit in hits} & {"cat/cat-0.jpg", "coffee/coffee-0.jpg"}
    alone = run("search", made, "dim:17 + 0.5*dim:3", "--json", "--url", "http://127.0.0.1:9")
    more = run("search", made, "--more", 17, "--more", "3=0.5", "--json")
    ids = [[hit["id"] for hit in json.loads(found.stdout)["hits"]] for found in (alone, more)]
    assert ids[0] == ids[1]
    assert "because" in run("search", made, f"{cat} & dim:0").stdout


def test_a_text_that_is_the_whole_query_needs_no_quotes(run, made):
    bare, quoted = (json.loads(run("search", made, text, "--json").stdout) for text in ("dog", '"dog"'))
    assert bare == quoted
    assert "because" in run("search", made, "a red dress on a chair").stdout
    nothing = run("search", made, "stethoscope")
    assert ("nothing here matches" in nothing.stderr) == (" yes " not in nothing.stdout)
    assert "check the path and its permissions" in run("search", made, "dog.jpg").exception.fix


def test_photos_and_expressions_are_asked_in_the_order_in_which_they_are_typed(run, made, photos):
    cat = photos / "cat" / "cat-0.jpg"
    found = json.loads(run("search", made, "dim:3 !dim:1", cat, "dim:1", "-k", 1, "--json").stdout)["queries"]
    assert [query["query"] for query in found] == ["dim:3 !dim:1", str(cat), "dim:1"]


def test_a_file_with_spaces_is_a_photo_and_a_mistake_is_told_with_its_place(run, made, photos, tmp_path):
    shutil.copy(photos / "cat" / "cat-0.jpg", tmp_path / "my - photo.jpg")
    hits = json.loads(run("search", made, tmp_path / "my - photo.jpg", "-k", 1, "--json").stdout)["hits"]
    assert hits[0]["id"] == "cat/cat-0.jpg"
    refused = run("search", made, "dim:1 + + dim:3").exception
    assert isinstance(refused, ExpressionInvalid)
    assert "character 9" in str(refused)


def test_conditions_and_unwanted_dimensions_narrow_the_search(run, made, photos):
    query = photos / "cat" / "cat-0.jpg"
    hits = json.loads(run("search", made, query, "--where", "folder=rocket,coffee", "--json").stdout)["hits"]
    assert {hit["payload"]["folder"] for hit in hits} == {"rocket", "coffee"}
    first = json.loads(run("search", made, query, "--json").stdout)["hits"][1]
    dimension = first["reasons"][0][0]
    without = json.loads(run("search", made, query, "--without", dimension, "--json").stdout)["hits"]
    assert all(reason[0] != dimension for hit in without for reason in hit["reasons"])
    sized = run("search", made, query, "--where", "bytes>=1", "--where", "bytes<2", "--json")
    assert json.loads(sized.stdout) == {"hits": []}
    assert re.fullmatch(r"no hit: no image has such a bytes; bytes is between \d+ and \d+\n", sized.stderr)
    old = run("search", made, query, "--where", "changed<2001-01-01").stderr
    day = r"20\d\d-\d\d-\d\d"
    assert re.fullmatch(f"no hit: no image has such a changed; changed is between {day} and {day}\n", old)
    others = run("search", made, query, "--where", "folder != cat,coffee", "-k", 99, "--json")
    assert {hit["payload"]["folder"] for hit in json.loads(others.stdout)["hits"]} == {
        "astronaut", "galaxies", "motorcycle", "retina", "rocket"
    }  # fmt: skip
    recent = run("search", made, query, "--where", "changed>2020-01-01", "--json")
    assert len(json.loads(recent.stdout)["hits"]) == 10


def test_a_condition_on_a_field_that_no_image_has_is_refused_with_those_that_there_are(run, made):
    refused = run("search", made, "--more", "17", "--where", "foo=bar").exception
    assert isinstance(refused, ConfigInvalid)
    assert "no image of the index has a field foo" in str(refused)
    assert "folder" in str(refused)
    assert run("search", made, "--more", "17", "--where", "fol!der=cat").exit_code == 2
    nowhere = run("search", made, "--more", "17", "--where", "folder=cats")
    assert nowhere.exit_code == 0
    assert "no hit: no image has such a folder; values of folder: astronaut (5), cat (5), coffee (5)" in nowhere.stderr
    assert run("search", made, "--more", "17", "--where", "id=nowhere").exit_code == 0


def test_what_random_photos_may_score_is_marked_and_can_be_left_out(run, made, photos, tmp_path):
    cat = photos / "cat" / "cat-0.jpg"
    hits = json.loads(run("search", made, cat, "-k", 35, "--json").stdout)["hits"]
    assert [hit["match"] for hit in hits] == sorted((hit["match"] for hit in hits), reverse=True)
    assert {hit["id"] for hit in hits if hit["match"]} >= {f"cat/cat-{i}.jpg" for i in range(5)}
    assert not all(hit["match"] for hit in hits)
    matches = json.loads(run("search", made, cat, "-k", 35, "--matches-only", "--json").stdout)["hits"]
    assert matches == [hit for hit in hits if hit["match"]]
    lines = run("search", made, cat, "-k", 35, "--html", tmp_path / "sheet.html").stdout.splitlines()
    assert re.search(r"score +image +match +because of", lines[0])
    assert (tmp_path / "sheet.html").read_text().count('class="chance"') == len(hits) - len(matches)
    none = run("search", made, cat, "--matches-only", "--where", "folder=galaxies", "--json")
    assert json.loads(none.stdout) == {"hits": []}
    assert none.stderr.startswith("no match: every photo scores as random ones may")


def test_dimensions_alone_are_a_question_too(run, made):
    hits = json.loads(run("search", made, "--more", "17", "--more", "3=0.5", "-k", 3, "--json").stdout)["hits"]
    assert all({r[0] for r in hit["reasons"]} <= {17, 3} for hit in hits)


def test_only_what_is_new_or_changed_is_embedded_and_what_is_gone_is_forgotten(run, photos, tmp_path, server):
    folder, out = tmp_path / "photos", tmp_path / "x.index"
    shutil.copytree(photos / "cat", folder / "cat")
    told = []

    def embedded():
        result = run("index", folder, "-o", out, "--prune", "--dimensions", 256)
        told.append(result.stdout)
        with Index.open(out) as index:
            return {name.rpartition("/")[2]: vector for name, vector in _stored(index)}

    before = embedded()
    (folder / "cat" / "cat-1.jpg").unlink()
    shutil.copy(photos / "coffee" / "coffee-0.jpg", folder / "cat" / "cat-2.jpg")
    shutil.copy(photos / "coffee" / "coffee-1.jpg", folder / "cat" / "new.jpg")
    after = embedded()
    assert set(after) == {"cat-0.jpg", "cat-2.jpg", "cat-3.jpg", "cat-4.jpg", "new.jpg"}
    assert before["cat-0.jpg"] == after["cat-0.jpg"]
    assert before["cat-2.jpg"] != after["cat-2.jpg"]
    assert "1 forgotten" in told[1]
    assert "256 dimensions" in told[1]


def _stored(index):
    vectors = index.engine.get(list(index.engine.payloads()))
    return [(name, vectors[i].numpy().tobytes()) for i, name in enumerate(vectors.ids)]


def test_a_file_of_vectors_becomes_an_index_without_a_server(run, client, photos, tmp_path):
    client.embed(photos).save(tmp_path / "photos.npz")
    result = run(
        "index", tmp_path / "photos.npz", "-o", tmp_path / "x.index", "--dimensions", 128, "--url", "http://127.0.0.1:9"
    )
    assert result.exit_code == 0, result.output
    assert "35 images, 128 dimensions" in result.stdout
    hits = json.loads(run("search", tmp_path / "x.index", photos / "cat" / "cat-0.jpg", "--json").stdout)["hits"]
    assert hits[0]["id"].endswith("cat-0.jpg")


def test_an_image_that_fails_is_named_and_the_others_are_indexed(run, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "cat")
    (tmp_path / "cat" / "broken.jpg").write_bytes(b"no image")
    result = run("index", tmp_path / "cat", "-o", tmp_path / "x.index")
    assert result.exit_code == 1
    assert "broken.jpg" in result.stderr
    assert "5 images" in result.stdout


def test_a_broken_image_is_not_tried_again_until_it_changes(run, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "cat")
    broken = tmp_path / "cat" / "broken.jpg"
    broken.write_bytes(b"no image")
    run("index", tmp_path / "cat", "-o", tmp_path / "x.index")
    again = run("index", tmp_path / "cat", "-o", tmp_path / "x.index")
    assert (again.exit_code, again.stderr) == (0, "")
    assert "0 new, 0 changed, 5 unchanged, 1 unreadable as before (--retry-failed)" in again.stdout
    other = run("index", tmp_path / "cat" / "cat-0.jpg", "-o", tmp_path / "x.index")
    assert "unreadable" not in other.stdout
    assert run("index", tmp_path / "cat", "-o", tmp_path / "x.index").stderr == ""
    asked = run("index", tmp_path / "cat", "-o", tmp_path / "x.index", "--retry-failed")
    assert asked.exit_code == 1
    assert "broken.jpg" in asked.stderr
    shutil.copy(photos / "cat" / "cat-0.jpg", broken)
    mended = run("index", tmp_path / "cat", "-o", tmp_path / "x.index")
    assert mended.exit_code == 0
    assert "1 new, 0 changed, 5 unchanged\n" in mended.stdout
    assert not (tmp_path / "x.index" / "broken.json").exists()


def test_an_image_whose_name_is_not_utf8_is_indexed(run, photos, tmp_path):
    shutil.copy(photos / "cat" / "cat-0.jpg", os.fsencode(tmp_path) + b"/\xff.jpg")
    result = run("index", tmp_path, "-o", tmp_path / "x.index")
    assert result.exit_code == 0, result.output
    assert "1 images" in result.stdout


def test_when_nothing_can_be_indexed_no_index_is_written(run, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    result = run("index", tmp_path / "a.jpg", "-o", tmp_path / "x.index")
    assert isinstance(result.exception, DataInvalid)
    assert "nothing could be indexed" in str(result.exception)
    assert not (tmp_path / "x.index").exists()


@pytest.mark.parametrize(
    ("asked", "needless"),
    [
        (["--more", "3"], ["--exact"]),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(run, made, asked, needless):
    found = run("search", made, *asked, *needless)
    assert found.exit_code == 2
    assert f"{needless[0]} has no meaning beside {asked[0]}" in found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a.jpg", "--more", "3"],
        ["--more", "x"],
        ["a.jpg", "--where", "cats"],
        ["a.jpg", "--where", "folder=a", "--where", "folder=b"],
        ["a.jpg", "--where", "folder>a"],
    ],
)
def test_questions_that_make_no_sense_are_refused(run, made, arguments):
    assert run("search", made, *arguments).exit_code == 2


def test_a_folder_that_is_not_an_index_and_another_model_are_said(run, made, random_embeddings, photos, tmp_path):
    assert isinstance(run("search", tmp_path, photos / "cat" / "cat-0.jpg").exception, DataInvalid)
    random_embeddings().save(tmp_path / "other.npz")
    assert isinstance(run("index", tmp_path / "other.npz", "-o", made).exception, FingerprintMismatch)


def test_an_unchanged_folder_and_another_model_are_refused_by_the_names_of_both(run, photos, tmp_path):
    assert run("index", photos / "cat", "-o", tmp_path / "x.index", "--bundle", "photo").exit_code == 0
    refused = run("index", photos / "cat", "-o", tmp_path / "x.index", "--bundle", "photo-fast")
    assert isinstance(refused.exception, FingerprintMismatch)
    assert re.search(r"of photo \(\w{8}\) and of photo-fast \(\w{8}\)", str(refused.exception))
    assert "nonneg index PHOTOS -o NEW" in refused.exception.fix
    assert "unchanged" not in refused.stdout


def test_the_model_is_asked_for_by_its_name(run, made, photos, start_server, tmp_path):
    several = ["--url", start_server("--alias", "latest=photo")]
    photo = photos / "cat" / "cat-0.jpg"
    assert run("index", photo, "-o", tmp_path / "x.index", *several, "--model", "latest").exit_code == 0
    assert "cat-0.jpg" in run("search", tmp_path / "x.index", photo, *several, "--model", "latest").stdout
    assert isinstance(run("search", made, photo, *several, "--model", "old").exception, ModelNotFound)
    refused = run("index", photo, "-o", tmp_path / "y.index", *several, "--model", "old").exception
    assert isinstance(refused, ModelNotFound)


def test_an_index_of_short_vectors_is_asked_at_its_length(run, photos, tmp_path):
    assert run("index", photos / "cat", "-o", tmp_path / "x.index", "--dimensions", 64).exit_code == 0
    hits = json.loads(run("search", tmp_path / "x.index", photos / "cat" / "cat-0.jpg", "--json").stdout)["hits"]
    assert hits[0]["score"] == pytest.approx(1, abs=1e-4)


def test_a_question_through_a_shorter_model_is_another_models_not_too_long(run, made, faulty, photos):
    asked = run("search", made, photos / "cat" / "cat-0.jpg", "--url", faulty.url)
    assert isinstance(asked.exception, FingerprintMismatch)


def test_another_length_than_the_index_has_is_refused_not_passed_over(run, made, photos):
    error = run("index", photos, "-o", made, "--dimensions", 64).exception
    assert "holds vectors of 2048 dimensions, not of 64: leave --dimensions out" in str(error)
    assert run("index", photos, "-o", made, "--dimensions", 2048).exit_code == 0


def test_an_index_that_keeps_a_tenth_is_asked_with_whole_vectors(run, made, photos, tmp_path):
    cut = tmp_path / "cut.index"
    assert "2048 dimensions, 205 values kept of each" in run("index", photos, "-o", cut, "--keep", 205).stdout
    with Index.open(cut) as index:
        stored = index.engine.get(["cat/cat-0.jpg"])
        assert np.diff(stored.indptr).tolist() == [205]
        assert index.description.kept == 205
    (hit, *_) = json.loads(run("search", cut, photos / "cat" / "cat-0.jpg", "--json").stdout)["hits"]
    assert hit["id"] == "cat/cat-0.jpg"
    with Index.open(made) as index:
        whole = index.engine.get(["cat/cat-0.jpg"]).numpy()[0]
    largest = np.sort(whole)[-205:]
    assert hit["score"] == pytest.approx(float(np.linalg.norm(largest)), abs=1e-3)  # the whole query, the cut vector


def test_an_index_keeps_as_many_values_as_it_began_with(run, photos, tmp_path):
    cut = tmp_path / "cut.index"
    run("index", photos / "cat", "-o", cut, "--root", photos, "--keep", 50)
    run("index", photos, "-o", cut)
    with Index.open(cut) as index:
        assert np.diff(index.engine.get(list(index.engine.payloads())).indptr).tolist() == [50] * 35
    error = run("index", photos, "-o", cut, "--keep", 60).exception
    assert "keeps 50 values of each vector, not 60" in str(error)


def test_the_contact_sheet_holds_thumbnails_scores_and_reasons(run, made, photos, tmp_path):
    sheet = tmp_path / "hits.html"
    run("search", made, photos / "cat" / "cat-0.jpg", "-k", 4, "--html", sheet)
    page = sheet.read_text()
    pictures = re.findall(r'"data:image/jpeg;base64,([^"]+)"', page)
    assert len(pictures) == 5  # the query and four hits
    for picture in pictures:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
            assert max(image.size) == 320
    assert page.count("<figure ") == 4
    assert 'class="score">1.000<' in page
    assert "http://" not in page
    assert "https://" not in page


def test_what_a_file_is_called_is_not_read_as_html(tmp_path):
    nasty = '<script>alert("x")</script>.jpg'
    write_sheet(tmp_path / "x.html", nasty, [Hit(nasty, 0.5, {}, ((3, 0.5),))])
    page = (tmp_path / "x.html").read_text()
    assert nasty not in page
    assert "no picture" in page


def test_the_same_folder_typed_otherwise_is_the_same_photos(run, photos, tmp_path, monkeypatch):
    shutil.copytree(photos / "cat", tmp_path / "photos" / "cat")
    (tmp_path / "other").symlink_to(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "x.index"
    assert "5 images" in run("index", "photos/", "-o", out).stdout
    for same in (tmp_path / "photos", "./photos", "photos/cat", "photos/cat/cat-1.jpg", "photos/*/*.jpg", "other"):
        result = run("index", same, "-o", out, "--url", "http://127.0.0.1:9")
        assert result.exit_code == 0, same
        assert "5 images" in result.stdout
        assert "0 new, 0 changed" in result.stdout
    monkeypatch.chdir("/")
    result = run("search", out, photos / "cat" / "cat-0.jpg", "--html", tmp_path / "hits.html")
    assert "no picture" not in (tmp_path / "hits.html").read_text()
    assert "cannot be read" not in result.stderr


def test_photos_that_moved_are_told_and_named_within_their_new_root(run, photos, tmp_path):
    out = tmp_path / "x.index"
    shutil.copytree(photos / "cat", tmp_path / "photos" / "cat")
    run("index", tmp_path / "photos", "-o", out)
    (tmp_path / "photos").rename(tmp_path / "moved")
    refused = run("index", tmp_path / "moved", "-o", out).exception
    assert isinstance(refused, ConfigInvalid)
    assert "--root" in refused.fix
    moved = run("index", tmp_path / "moved", "-o", out, "--root", tmp_path / "moved", "--url", "http://127.0.0.1:9")
    assert "5 images" in moved.stdout
    assert "0 new, 0 changed, 5 unchanged" in moved.stdout
    query = tmp_path / "moved" / "cat" / "cat-0.jpg"
    run("search", out, query, "--html", tmp_path / "hits.html")
    assert "no picture" not in (tmp_path / "hits.html").read_text()


def test_pictures_that_cannot_be_read_are_told(run, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "photos")
    run("index", tmp_path / "photos", "-o", tmp_path / "x.index")
    shutil.rmtree(tmp_path / "photos")
    result = run("search", tmp_path / "x.index", photos / "cat" / "cat-0.jpg", "--html", tmp_path / "hits.html")
    assert f"5 of 5 images cannot be read in {tmp_path / 'photos'}" in result.stderr


def test_what_a_file_of_vectors_brought_is_not_embedded_again(run, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "photos" / "cat")
    run("embed", tmp_path / "photos", "-o", tmp_path / "x.npz")
    said = run("index", tmp_path / "x.npz", "-o", tmp_path / "x.index").stdout
    assert said.endswith("; 5 new, 0 changed, 0 unchanged\n")
    nowhere = ("--url", "http://127.0.0.1:9")
    said = run("index", tmp_path / "photos", "-o", tmp_path / "x.index", *nowhere).stdout
    assert said.endswith("; 0 new, 0 changed, 5 unchanged\n")
    (tmp_path / "x.npz.origins.jsonl").unlink()  # as of another program: what it brings is taken as right
    run("index", tmp_path / "x.npz", "-o", tmp_path / "y.index")
    said = run("index", tmp_path / "photos", "-o", tmp_path / "y.index", "--root", tmp_path / "photos", *nowhere).stdout
    assert said.endswith("; 0 new, 0 changed, 5 unchanged\n")
    with Index.open(tmp_path / "y.index") as index:
        assert all("changed" in payload for payload in index.engine.payloads().values())


@pytest.fixture
def catalogue(run, photos, tmp_path):
    """Photos with a CSV file of what they cost."""
    shutil.copytree(photos / "cat", tmp_path / "photos" / "cat")
    (tmp_path / "products.csv").write_text(
        "path,price,brand,sku,since,sold\n"
        "cat/cat-0.jpg,9.5,Acme,007,2023-01-05,true\n"
        "cat/cat-1.jpg,30,Acme,008,2024-05-31,false\n"
        f"{tmp_path / 'photos' / 'cat' / 'cat-2.jpg'},120,Bee & Co,x9,2024-06-01,false\n"
        "./cat/cat-3.jpg,,Bee & Co,,,\n"
    )
    out = tmp_path / "x.index"
    assert run("index", tmp_path / "photos", "-o", out, "--attributes", tmp_path / "products.csv").exit_code == 0

    def find(*conditions: str):
        where = [word for condition in conditions for word in ("--where", condition)]
        result = run("search", out, photos / "cat" / "cat-4.jpg", *where, "--json")
        assert result.exit_code == 0, result.exception
        return sorted(hit["id"][-5] for hit in json.loads(result.stdout)["hits"])

    return find


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        (["price<30"], ["0"]),
        (["price<=30", "price > 9.5"], ["1"]),
        (["price=30"], ["1"]),
        (["price=120.0"], ["2"]),
        (["brand=Acme"], ["0", "1"]),
        (["brand=Bee & Co"], ["2", "3"]),
        (["brand!=Acme"], ["2", "3", "4"]),
        (["brand!=Acme", "brand!=Bee & Co"], ["4"]),
        (["brand==Acme,Bee & Co", "sold=false"], ["1", "2"]),
        (["sku=007"], ["0"]),
        (["since=2024-05-31"], ["1"]),
        (["since>=2024-01-01", "since<2024-06-01"], ["1"]),
        (["since!=2023-01-05", "since>2000-01-01"], ["1", "2"]),
        (["price=31"], []),
    ],
)
def test_attributes_of_a_csv_file_are_typed_and_can_be_asked_for(catalogue, conditions, found):
    assert catalogue(*conditions) == found


def test_attributes_that_changed_are_kept_without_embedding_anything(run, catalogue, photos, tmp_path):
    (tmp_path / "products.csv").write_text("path,price\ncat/cat-0.jpg,11\nnowhere.jpg,2\n")
    out, nowhere = tmp_path / "x.index", ("--url", "http://127.0.0.1:9")
    said = run("index", tmp_path / "photos", "-o", out, "--attributes", tmp_path / "products.csv", *nowhere)
    assert "0 new, 0 changed, 5 unchanged" in said.stdout
    assert "1 of 2 lines are about images that are not in the index (the first is nowhere.jpg)" in said.stderr
    assert catalogue("price=11") == ["0"]


@pytest.mark.parametrize(
    "text", ["price\n3\n", "path,folder\na.jpg,x\n", "path,two words\na.jpg,x\n", "path,pri!ce\na.jpg,1\n"]
)
def test_attributes_that_cannot_be_kept_are_refused_before_the_work(run, photos, tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    result = run("index", photos, "-o", tmp_path / "x.index", "--attributes", tmp_path / "a.csv")
    assert isinstance(result.exception, DataInvalid)
    assert not (tmp_path / "x.index").exists()


def test_a_query_that_is_in_the_index_may_leave_itself_out(run, made, photos):
    query = photos / "cat" / "cat-0.jpg"
    everything = json.loads(run("search", made, query, "-k", 4, "--json").stdout)["hits"]
    others = json.loads(run("search", made, query, "-k", 3, "--exclude-self", "--json").stdout)["hits"]
    assert [hit["id"] for hit in others] == [hit["id"] for hit in everything][1:]
    assert "cat/cat-0.jpg" not in {hit["id"] for hit in others}


def test_several_queries_are_asked_in_one_call(run, made, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "cat")
    result = run("search", made, tmp_path / "cat", photos / "rocket" / "rocket-1.jpg", "-k", 2, "--json")
    found = json.loads(result.stdout)["queries"]
    assert [entry["query"][-8:] for entry in found] == [*(f"at-{i}.jpg" for i in range(5)), "et-1.jpg"]
    alone = json.loads(run("search", made, photos / "rocket" / "rocket-1.jpg", "-k", 2, "--json").stdout)["hits"]
    assert [hit["id"] for hit in found[-1]["hits"]] == [hit["id"] for hit in alone]
    lines = run("search", made, tmp_path / "cat", "-k", 2).stdout.splitlines()
    assert lines[0].split() == ["query", "score", "image"]
    assert len(lines) == 11
    assert run("search", made, tmp_path / "cat", "--html", tmp_path / "x.html").exit_code == 2


def test_vectors_that_are_too_short_for_an_index_are_told_how_to_be_longer(made, client, photos):
    query = client.embed(photos / "cat" / "cat-0.jpg", dimensions=512)
    with Index.open(made) as index, pytest.raises(DataInvalid) as caught:
        index.search(query)
    assert caught.value.fix == "embed with dimensions=2048"


@pytest.fixture
def dated(run, photos, tmp_path):
    """An index whose images were taken at times of three days, at prices that are whole and not; one says neither."""
    names = sorted(f"{path.parent.name}/{path.name}" for path in photos.rglob("*.jpg"))
    times = ("2024-05-30T23:59:59", "2024-05-31T00:00:00", "2024-05-31T18:30:00", "2024-06-01T07:00:00")
    lines = [f"{name},{times[i % 4]},{9 + i % 8 / 2:g}" for i, name in enumerate(names[1:])]
    (tmp_path / "taken.csv").write_text("\n".join(["path,taken,price", *lines]))
    made = run("index", photos, "-o", tmp_path / "dated.index", "--attributes", tmp_path / "taken.csv", "--quiet")
    assert made.exit_code == 0, made.output
    return tmp_path / "dated.index", {name: times[i % 4] for i, name in enumerate(names[1:])}


@pytest.mark.parametrize(
    ("condition", "days", "others"),
    [
        ("taken=2024-05-31", ["2024-05-31"], False),
        ("taken!=2024-05-31", ["2024-05-30", "2024-06-01"], True),
        ("taken=2024-05-31,2024-06-01", ["2024-05-31", "2024-06-01"], False),
        ("taken!=2024-05-31,2024-06-01", ["2024-05-30"], True),
        ("taken>2024-05-31", ["2024-06-01"], False),
        ("taken<=2024-05-31", ["2024-05-30", "2024-05-31"], False),
        ("taken<2024-05-31", ["2024-05-30"], False),
    ],
)
def test_a_day_is_all_of_its_times(run, dated, photos, condition, days, others):
    index, times = dated
    found = run("search", index, photos / "cat" / "cat-0.jpg", "--where", condition, "-k", 99, "--json")
    expected = {name for name, time in times.items() if time[:10] in days}
    ids = {hit["id"] for hit in json.loads(found.stdout)["hits"]}
    assert ids - {"astronaut/astronaut-0.jpg"} == expected
    assert ("astronaut/astronaut-0.jpg" in ids) == others


def test_several_numbers_may_be_asked_for_whole_or_not(run, dated, photos):
    index, _ = dated
    for condition, prices in (("price=9.5,12", {9.5, 12}), ("price!=9.5,12", {9, 10, 10.5, 11, 11.5, 12.5, None})):
        found = run("search", index, photos / "cat" / "cat-0.jpg", "--where", condition, "-k", 99, "--json")
        assert {hit["payload"].get("price") for hit in json.loads(found.stdout)["hits"]} == prices


def test_a_photo_that_is_gone_is_named_until_it_is_pruned(run, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "photos")
    first = run("index", tmp_path / "photos", "-o", tmp_path / "x.index")
    assert "gone:" not in first.stdout
    (tmp_path / "photos" / "cat-0.jpg").unlink()
    assert "1 gone: --prune" in run("index", tmp_path / "photos", "-o", tmp_path / "x.index").stdout
    assert "1 forgotten" in run("index", tmp_path / "photos", "-o", tmp_path / "x.index", "--prune").stdout
    assert "gone:" not in run("index", tmp_path / "photos", "-o", tmp_path / "x.index").stdout


def test_a_cell_that_makes_its_column_text_is_named_with_its_line(tmp_path):
    from nonneg_vectors.search.attributes import read_attributes

    (tmp_path / "p.csv").write_text("path,price,brand\na.jpg,1\nb.jpg,2.5\nc.jpg,n/a,x\nd.jpg,4,y\n")
    table = read_attributes(tmp_path / "p.csv", tmp_path)
    assert table.kinds == {"price": "text", "brand": "text"}
    (doubt,) = table.doubts
    assert "p.csv, line 4: price='n/a' is not a number as the other cells are" in doubt


@pytest.mark.slow
def test_without_a_server_the_shipped_model_of_the_index_embeds(photos, tmp_path, monkeypatch):
    monkeypatch.delenv("NONNEG_URL", raising=False)
    index, photo = tmp_path / "x.index", str(photos / "cat" / "cat-0.jpg")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # nothing answers on the port after it
        port = taken.getsockname()[1]
    environment = {"default_map": {name: {"url": f"http://127.0.0.1:{port}"} for name in ("index", "search")}}
    made = CliRunner().invoke(nonneg, ["index", str(photos / "cat"), "-o", str(index)], **environment)
    assert made.exit_code == 0, made.output
    assert f"no server at http://127.0.0.1:{port}: photo embeds in this process" in made.stderr
    found = CliRunner().invoke(nonneg, ["search", str(index), photo, "--json"], **environment)
    assert json.loads(found.stdout)["hits"][0]["id"] == "cat-0.jpg"
    asked = CliRunner().invoke(nonneg, ["search", str(index), photo, "--url", f"http://127.0.0.1:{port}"])
    assert isinstance(asked.exception, ConnectionFailed)
