"""`nonneg curate`: what it finds in a folder whose copies are known, in every form, and how it fails."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from nonneg_client import Embeddings
from nonneg_client.search import Index
from nonneg_core.errors import DataInvalid, FingerprintMismatch
from nonneg_core.process.long_runs import Interrupted
from nonneg_vectors.curation.collection import read_collection
from nonneg_vectors.curation.comparing import compare
from nonneg_vectors.curation.neighbours import Block, PairLimits, Scan, Tiling
from nonneg_vectors.curation.photos import photos_of
from nonneg_vectors.search.index import describe


def found(result) -> dict:
    assert result.exit_code == 0, result.output
    return {section["part"]: section for section in json.loads(result.stdout)["sections"]}


def names(group: dict, action: str) -> set[str]:
    return {Path(f["path"]).name for f in group["findings"] if f["action"] == action}


def test_exact_copies_copies_and_look_alikes_are_three_lists(run, index):
    sections = found(run("curate", index, "--only", "exact,copies,similar", "--similar", "0.9", "--json"))
    (exact,) = sections["exact"]["groups"]
    assert (names(exact, "keep"), names(exact, "remove")) == ({"00.png"}, {"00-again.png"})
    assert [f["why"] for f in exact["findings"]] == [
        "the shortest path",
        "the same bytes; the kept one has the shorter path",
    ]
    (copies,) = sections["copies"]["groups"]
    assert names(copies, "keep") == {"00.png"}
    assert names(copies, "remove") == {"00-half.png", "00-mirrored.png"}
    halved = next(f for f in copies["findings"] if f["path"].endswith("00-half.png"))
    assert halved["why"] == "160 x 120 pixels, the kept one 320 x 240"
    assert 0.8 < halved["cosine"] < 1
    assert sections["similar"]["groups"] == []


def test_similar_photos_are_those_above_the_cosine_that_are_not_copies(run, index, vectors):
    sections = found(run("curate", index, "--only", "similar", "--similar", "0.6", "--json"))
    z = vectors.numpy()
    assert sections["similar"]["groups"]
    for group in sections["similar"]["groups"]:
        keep = next(f for f in group["findings"] if f["action"] == "keep")
        for f in group["findings"]:
            if f["action"] == "review":
                assert f["of"] == keep["image"]
                cosine = float(z[vectors.ids.index(f["image"])] @ z[vectors.ids.index(keep["image"])])
                assert f["cosine"] == pytest.approx(cosine, abs=3e-4)
                assert cosine >= 0.6


def test_the_table_csv_and_lists_say_the_same(run, index, tmp_path, folder):
    result = run("curate", index, "--only", "exact,copies", "--csv", tmp_path / "found.csv")
    assert "Exact copies: 1 photos in 1 group" in result.stdout or "Exact copies: 2 photos in 1 group" in result.stdout
    rows = list(csv.DictReader(io.StringIO((tmp_path / "found.csv").read_text())))
    removed = sorted(row["path"] for row in rows if row["action"] == "remove")
    assert [Path(path).name for path in removed] == ["00-again.png", "00-half.png", "00-mirrored.png"]
    assert sorted(run("curate", index, "--only", "exact,copies", "--list", "remove").stdout.splitlines()) == removed
    zeroed = run("curate", index, "--only", "exact,copies", "--list", "remove", "-0").stdout
    assert sorted(zeroed.split("\0")) == ["", *removed]
    assert len(list(folder.rglob("*.png"))) == 28  # nothing is deleted


def test_the_other_parts_find_what_is_there(run, index):
    result = run("curate", index, "--only", "pixels,outliers,clusters,subset,missed,classes,labels",
                 "--clusters", 2, "--subset", 3, "--json")  # fmt: skip
    sections = found(result)
    dark = next(group for group in sections["pixels"]["groups"] if group["title"].startswith("dark"))
    assert names(dark, "review") == {"black.png"}
    assert len(sections["subset"]["groups"][0]["findings"]) == 3
    assert sum(len(g["findings"]) for g in sections["clusters"]["groups"]) == 28
    assert {row["label"] for row in sections["classes"]["rows"]} == {"cat", "dog"}
    doubted = {Path(f["path"]).name for g in sections["labels"]["groups"] for f in g["findings"]}
    assert "00-mirrored.png" in doubted  # a cat in the dogs' folder
    missed = [Path(g["findings"][0]["path"]).name for g in sections["missed"]["groups"]]
    assert "00-mirrored.png" in missed


def test_the_sheet_holds_every_photo_of_every_part_and_no_link_to_the_net(run, index, tmp_path):
    result = run("curate", index, "--html", tmp_path / "sheet.html", "--quiet")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "sheet.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 28  # each photo once, in however many parts it is shown
    shown = [int(number) for number in re.findall(r'data-picture="(\d+)"', page)]
    assert set(shown) == set(range(28))
    assert len(shown) > 28
    assert "00-mirrored.png" in page
    assert "[[" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_no_cell_of_the_csv_is_a_formula(run, vectors, folder, tmp_path):
    name = folder / "cat" / "=1+1.png"
    name.write_bytes((folder / "cat" / "00.png").read_bytes())
    vectors[:2].named((str(name), "@SUM(1).png")).save(tmp_path / "x.npz")
    result = run("curate", tmp_path / "x.npz", "--only", "subset", "--csv", tmp_path / "x.csv")
    name.unlink()
    assert result.exit_code == 0, result.exception
    cells = [cell for line in csv.reader(io.StringIO((tmp_path / "x.csv").read_text())) for cell in line]
    assert "'@SUM(1).png" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


@pytest.mark.parametrize(("command", "root"), [("curate", ""), ("search", ""), ("diff", ""), ("curate", "/")])
def test_a_file_of_vectors_decides_neither_what_is_fetched_nor_what_is_opened(
    run, vectors, folder, tmp_path, command, root, monkeypatch
):
    """Of its ids one is a URL that answers with a photo, and three lead to a photo outside of its folder."""
    fetched, photo = [], (folder / "cat" / "00.png").read_bytes()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            fetched.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(photo)

        def log_message(self, *_):
            pass

    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "0.png").write_bytes(photo)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link.png").symlink_to(tmp_path / "secret" / "0.png")
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        ids = (
            f"http://127.0.0.1:{server.server_port}/0.png",
            str(tmp_path / "secret" / "0.png"),
            "../secret/0.png",
            "link.png",
        )
        given = vectors[:23].named((*ids, *vectors.ids[4:23]))
        monkeypatch.chdir(tmp_path / "here")
        source, sheet = tmp_path / "x.index", tmp_path / "x.html"
        with Index.open(source, like=replace(describe(given), root=root or str(tmp_path / "here"))) as index:
            index.add(given)
        more = {"curate": [], "search": ["--more", str(int(given.indices[0]))], "diff": [source]}[
            command
        ]  # of which diff shows none: it is one collection twice
        result = run(command, source, *more, "--html", sheet)
        server.shutdown()
    assert result.exit_code == 0, result.exception
    assert fetched == []
    assert "data:image/jpeg" not in sheet.read_text()


def test_photos_are_compared_across_two_indexes(run, vectors, tmp_path):
    train = [i for i, name in enumerate(vectors.ids) if "/cat/" in name]
    val = [i for i, name in enumerate(vectors.ids) if "/dog/" in name]
    vectors[train].save(tmp_path / "train.npz")
    vectors[val].save(tmp_path / "val.npz")
    sections = found(run("curate", tmp_path / "val.npz", "--against", tmp_path / "train.npz", "--json"))
    assert set(sections) == {"exact", "copies", "similar"}
    (leak,) = sections["copies"]["groups"]
    assert names(leak, "remove") == {"00-mirrored.png"}
    assert names(leak, "keep") == {"00.png", "00-again.png", "00-half.png"}
    refused = run("curate", tmp_path / "val.npz", "--against", tmp_path / "train.npz", "--only", "clusters")
    assert refused.exit_code == 2
    assert "clusters is of one index" in refused.stderr


def test_whole_vectors_are_compared_with_cut_ones_as_these_are(run, vectors, tmp_path):
    vectors.save(tmp_path / "whole.npz")
    vectors.shorten(top_k=3).save(tmp_path / "cut.npz")
    z = vectors.shorten(top_k=3).numpy()
    for one, other in (("whole", "cut"), ("cut", "whole")):
        paths = tmp_path / f"{one}.npz", "--against", tmp_path / f"{other}.npz"
        similar = found(run("curate", *paths, "--only", "similar", "--similar", "0.6", "--json"))["similar"]
        assert any("largest entries of each vector are compared, as" in note for note in similar["notes"])
        leaks = [f for group in similar["groups"] for f in group["findings"] if f["action"] == "keep"]
        assert leaks
        for leak in leaks:
            a, b = (vectors.ids.index(leak[key]) for key in ("image", "of"))
            assert leak["cosine"] == pytest.approx(float(z[a] @ z[b]), abs=1e-5)


def test_conditions_narrow_what_is_curated(run, index, vectors):
    with Index.open(index) as opened:
        opened.add(vectors, [{"folder": Path(name).parent.name} for name in vectors.ids])
    sections = found(run("curate", index, "--where", "folder=dog", "--only", "clusters,copies", "--json"))
    assert sum(len(g["findings"]) for g in sections["clusters"]["groups"]) == 14
    assert sections["copies"]["groups"] == []
    refused = run("curate", index, "--where", "folder=fish")
    assert isinstance(refused.exception, DataInvalid)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nonneg" / "curate"


def interrupt_at(block: int, monkeypatch) -> None:
    compute = Scan.block

    def interrupted(scan: Scan, start: int) -> Block:
        if start == block:
            signal.raise_signal(signal.SIGINT)
        return compute(scan, start)

    monkeypatch.setattr(Scan, "block", interrupted)


def test_a_run_that_was_stopped_goes_on_with_the_next_block(index, cache):
    collection = read_collection(index)
    thumbnails = photos_of(collection).thumbnails()

    def compared():
        pairs, places, cosines = compare(collection, PairLimits(similar=0.5), thumbnails, tiling=Tiling(rows=10))
        return [*vars(pairs).values(), places, cosines]

    whole = compared()
    (kept,) = cache.iterdir()
    first, second, third = blocks = sorted(kept.iterdir())
    written, held = first.stat(), [block.read_bytes() for block in blocks]
    second.unlink()
    third.write_bytes(b"half a block")
    for array, expected in zip(compared(), whole, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert [block.read_bytes() for block in blocks] == held
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_an_interrupt_keeps_the_blocks_that_are_done(index, cache, monkeypatch):
    interrupt_at(20, monkeypatch)
    with pytest.raises(Interrupted):
        compare(read_collection(index), PairLimits(), None, tiling=Tiling(rows=10))
    (kept,) = cache.iterdir()
    assert len(list(kept.iterdir())) == 2


def test_an_interrupt_says_that_the_same_command_goes_on(run, index, monkeypatch):
    interrupt_at(0, monkeypatch)
    result = run("curate", index, "--only", "similar")
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr


def test_only_the_last_few_comparisons_are_kept(index, cache):
    for cosine in (0.5, 0.6, 0.7):
        compare(read_collection(index), PairLimits(similar=cosine), None, capacity=2)
    assert len(list(cache.iterdir())) == 2


def test_photos_that_are_gone_are_said_and_compared_by_vector(run, vectors, tmp_path):
    gone = vectors.named([name.replace("/cat/", "/gone/") for name in vectors.ids])
    gone.save(tmp_path / "gone.npz")
    sections = found(run("curate", tmp_path / "gone.npz", "--only", "exact,copies,similar,pixels", "--json"))
    assert "14 photos could not be read" in sections["copies"]["notes"][0]
    alike = sections["similar"]["groups"]
    assert {"00.png", "00-again.png"} <= {Path(f["path"]).name for g in alike for f in g["findings"]}
    sheet = run("curate", tmp_path / "gone.npz", "--only", "similar", "--html", tmp_path / "gone.html")
    assert sheet.exit_code == 0
    assert "no picture" in (tmp_path / "gone.html").read_text()


def test_one_photo_and_the_same_photo_many_times_are_no_trouble(run, vectors, tmp_path, folder, monkeypatch):
    vectors[:1].save(tmp_path / "one.npz")
    sections = found(run("curate", tmp_path / "one.npz", "--json"))
    assert all(not section["groups"] for part, section in sections.items() if part in ("exact", "copies", "similar"))
    many = Embeddings.concatenate([vectors[:1]] * 30)
    for i in range(30):
        (tmp_path / f"{i}.png").write_bytes((folder / "cat" / "00.png").read_bytes())
    many.named([str(tmp_path / f"{i}.png") for i in range(30)]).save(tmp_path / "many.npz")
    monkeypatch.chdir(tmp_path)
    sections = found(run("curate", tmp_path / "many.npz", "--json"))
    (group,) = sections["exact"]["groups"]
    assert len(group["findings"]) == 30
    assert len(names(group, "keep")) == 1
    assert sections["copies"]["groups"] == sections["similar"]["groups"] == []
    assert not any("largest entries" in note for section in sections.values() for note in section["notes"])


def test_only_the_largest_entries_stored_is_said(run, vectors, tmp_path):
    vectors.shorten(top_k=3).save(tmp_path / "cut.npz")
    parts = "similar,outliers,clusters,subset,labels,missed,classes"
    sections = found(run("curate", tmp_path / "cut.npz", "--only", parts, "--json"))
    assert set(sections) == set(parts.split(","))
    for section in sections.values():
        assert any("Only the 3 largest entries of each vector are stored" in note for note in section["notes"])
    assert "Only the 3 largest entries" in sections["similar"]["notes"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "twins"], "'twins' is not one of"),
        (["-0"], "-0 goes with --list"),
        (["--similar", "0"], "0"),
        (["--only", "exact", "--subset", "3"], "--subset is of subset, which --only leaves out"),
        (["--only", "exact", "--clusters", "2"], "--clusters is of clusters, which --only"),
        (["--only", "exact", "--labels", "brand"], "--labels is of labels, missed, classes, which --only"),
        (["--only", "exact,copies", "--similar", "0.6"], "--similar is of similar, which --only"),
        (["--only", "exact", "--bundle", "photo-fast"], "--bundle is of outliers, clusters, which --only"),
        (["--against", ".", "--labels", "brand"], "--labels is of labels, missed, classes, which --against"),
        (["--against", ".", "--subset", "3"], "--subset is of subset, which --against"),
    ],
)
def test_questions_that_make_no_sense_are_refused(run, index, arguments, said):
    result = run("curate", index, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_labels_that_are_not_there_are_refused_where_they_are_asked_for_and_said_where_not(
    run, index, vectors, tmp_path
):
    refused = run("curate", index, "--labels", "typo").exception
    assert isinstance(refused, DataInvalid)
    assert "no photo has a field typo" in str(refused)
    flat = vectors.named([name.replace("/cat/", "/pet/").replace("/dog/", "/pet/") for name in vectors.ids])
    flat.save(tmp_path / "flat.npz")
    said = run("curate", tmp_path / "flat.npz", "--quiet")
    assert said.exit_code == 0
    assert said.stderr.startswith("labels, missed, classes are left out: folder has one value for 28 photos")
    assert "left out" not in run("curate", index, "--quiet").stderr


def test_an_index_and_a_file_without_photos_are_refused(run, index, vectors, tmp_path):
    vectors[[]].save(tmp_path / "empty.npz")
    with Index.open(tmp_path / "empty.index", like=vectors):
        pass
    for arguments in (
        ["empty.npz"], ["empty.index", "--html", tmp_path / "a.html"], [index, "--against", tmp_path / "empty.npz"],
    ):  # fmt: skip
        refused = run("curate", tmp_path / arguments[0], *arguments[1:]).exception
        assert isinstance(refused, DataInvalid)
        assert "holds no photo" in str(refused)
        assert refused.fix
    assert not (tmp_path / "a.html").exists()


def test_what_is_not_an_index_another_model_and_no_labels_are_said(run, index, vectors, tmp_path):
    assert isinstance(run("curate", tmp_path).exception, DataInvalid)
    other = Embeddings.from_dense(np.eye(3, 64), fingerprint="1" * 32, ids=("a", "b", "c"))
    other.save(tmp_path / "other.npz")
    assert isinstance(run("curate", index, "--against", tmp_path / "other.npz").exception, FingerprintMismatch)
    vectors.named(None).save(tmp_path / "nameless.npz")
    assert isinstance(run("curate", tmp_path / "nameless.npz").exception, DataInvalid)
    assert "no photo has a field breed" in str(run("curate", index, "--only", "labels", "--labels", "breed").exception)
