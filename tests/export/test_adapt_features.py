"""What adapting is made of: features computed once, parts without copies, labels, a head, a trained front."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.errors import DataInvalid, StorageFailed
from nonneg_core.process.long_runs import Interrupted
from nonneg_core.shortening import unit
from nonneg_export.adapt import fitting
from nonneg_export.adapt.backbone import FeatureBackbone, open_source
from nonneg_export.adapt.fitting import fit, largest, split
from nonneg_export.adapt.photo_features import FeatureExtractor, Features, compute_features
from nonneg_export.adapt.photo_labels import Labels, labels_of
from nonneg_export.adapt.trained_front import train_front
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_export.calibrate.photo_records import RecordBuffer, Records, record_form, sealed
from nonneg_runtime.heads.feature_head import Weights
from nonneg_runtime.heads.head import Head
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.seeing.preprocess import Preprocessor

SOURCE = "photo-fast"
SAID = ("weights", "weights_license", "data", "data_license")
NONNEG = str(Path(sys.executable).with_name("nonneg"))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


@pytest.fixture(scope="module")
def features(tiles: Path, tmp_path_factory: pytest.TempPathFactory) -> Features:
    source = open_source(SOURCE)
    backbone = FeatureBackbone(source, tmp_path_factory.mktemp("backbone"), 1)
    return compute_features(source, backbone, find_photos(tiles))


def test_features_are_those_of_the_backbone(features: Features) -> None:
    """Against the shipped head: what its encoder answers to a photo is what it makes of the features."""
    source = open_source(SOURCE)
    session = open_session(source.bundle.encoder, precision=source.bundle.manifest.precision)
    for photo in (0, 50, 111):
        pixels = Preprocessor(source.view).pixels(features.path(photo).read_bytes())
        one, other = session.run(pixels[None])[0], source.head.embed(features.roots(np.array([photo])))[0]
        assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) > 0.999


def test_copies_lie_on_one_side(tiles: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copied"
    shutil.copytree(tiles, folder)
    for path in sorted(folder.rglob("*.jpg"))[::3]:
        with Image.open(path) as picture:
            picture.resize((90, 90)).save(path.with_name(f"small-{path.name}"), quality=70)
    source = open_source(SOURCE)
    found = compute_features(source, FeatureBackbone(source, tmp_path, 1), find_photos(folder))
    parts = split(found, source.head)
    names = [{found.path(n).name.removeprefix("small-") + found.path(n).parent.name for n in part.tolist()}
             for part in (parts.fit, parts.judged)]  # fmt: skip
    assert parts.copies > 3
    assert not names[0] & names[1]
    assert len(parts.judged) == len(names[1])  # nor twice in the judging part


def test_the_part_of_a_photo_depends_on_its_content(tiles: Path, features: Features, tmp_path: Path) -> None:
    folder = tmp_path / "renamed"
    folder.mkdir()
    for i, path in enumerate(reversed(features.photos.paths)):
        shutil.copy(path, folder / f"{i:03}.jpg")
    source = open_source(SOURCE)
    renamed = compute_features(source, FeatureBackbone(source, tmp_path, 1), find_photos(folder))
    one, other = (split(found, source.head) for found in (features, renamed))
    digests = [{bytes(d) for d in found.digests(parts.judged)} for found, parts in ((features, one), (renamed, other))]
    assert digests[0] == digests[1]


def test_labels_of_a_table_go_before_folders(tiles: Path, features: Features, tmp_path: Path) -> None:
    some = sorted(tiles.rglob("*.jpg"))[:20]
    table = tmp_path / "labels.csv"
    table.write_text("path,label\n" + "".join(f"{path},{path.name < '08'}\n" for path in some))
    labels = labels_of(features, table)
    assert set(labels.names) == {"True", "False"}
    assert (labels.codes >= 0).sum() == 20
    (tmp_path / "link").symlink_to(tiles)
    table.write_text(f"path,label\nlink/cat/00.jpg,one\n{tiles}/cat/00.jpg,two\nlink/cat/01.jpg,\n")
    labels = labels_of(features, table)
    assert labels.names == ("one", "two")
    assert [features.path(n).name for n in np.flatnonzero(labels.codes == 1).tolist()] == ["00.jpg"], "the last counts"
    assert (labels.codes >= 0).sum() == 1
    table.write_text(f"path, label\n{tiles}/cat/00.jpg, one\n\nlost.jpg, one\n {tiles}/cat/01.jpg ,one \nb.jpg,one\n")
    labels = labels_of(features, table)
    assert labels.names == ("one",)
    assert (labels.codes >= 0).sum() == 2
    assert labels.unmatched == f"{table}: 2 of 4 lines name none of the photos (the first is lost.jpg)"
    table.write_text("path,label\ncat/00.jpg,one\n")
    assert (labels_of(features, table).codes >= 0).sum() == 1, "within the folder of photos, too"
    table.write_text("path,label\nnowhere.jpg,x\n")
    with pytest.raises(DataInvalid, match=r"names none of the 112 photos .* \(its first is nowhere.jpg\)"):
        labels_of(features, table)


def test_an_interrupted_run_keeps_every_photo_that_it_has_seen(tiles: Path, tmp_path: Path) -> None:
    shutil.copytree(tiles, tmp_path / "photos")
    source, photos = open_source(SOURCE), find_photos(tmp_path / "photos")
    (work := tmp_path / "work").mkdir()
    backbone = FeatureBackbone(source, work, 1)

    def interrupt(done: int, _: int) -> None:
        if done == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        compute_features(source, backbone, photos, tick=interrupt)
    counts: list[int] = []
    compute_features(source, backbone, photos, tick=lambda done, _: counts.append(done))
    assert counts[0] == 21


def test_records_are_written_in_time_though_few_wait(tmp_path: Path) -> None:
    form, now = record_form(3), 0.0
    records = Records(tmp_path / "records", form)
    with RecordBuffer(records, clock=lambda: now) as buffer:
        buffer.add(sealed(np.zeros(1, dtype=form)))
        assert len(records.stored()) == 0
        now = 10.0
        buffer.add(sealed(np.zeros(1, dtype=form)))
        assert len(records.stored()) == 2
        buffer.add(sealed(np.zeros(1, dtype=form)))
    assert len(records.stored()) == 3


def test_bad_files_are_left_out_and_named(tiles: Path, tmp_path: Path) -> None:
    good = (tiles / "cat" / "00.jpg").read_bytes()
    for name, data in {"good": good, "torn": good[:300], "empty": b"", "text": b"not a photo"}.items():
        (tmp_path / f"{name}.jpg").write_bytes(data)
    with (tmp_path / "huge.jpg").open("wb") as file:
        file.truncate(300 * 2**20)
    source = open_source(SOURCE)
    (work := tmp_path / "work").mkdir()
    for _ in range(2):  # computed, then read
        found = compute_features(source, FeatureBackbone(source, work, 1), find_photos(tmp_path))
        assert [found.path(photo).name for photo in range(len(found))] == ["good.jpg"]
        reasons = {path.name: reason for path, reason in found.broken}
        assert set(reasons) == {"torn.jpg", "empty.jpg", "text.jpg", "huge.jpg"}
        assert "314572800 bytes" in reasons["huge.jpg"]


@pytest.mark.parametrize("codes", [[0] * 9, range(9), [-1] * 9, [-1] * 8 + [0]])
def test_labels_that_say_nothing_are_as_none(codes: list[int]) -> None:
    assert not Labels(np.array(codes), tuple("abcdefghi")).useful
    assert Labels(np.array([0, 1, 1]), ("a", "b")).useful


def test_records_that_were_cut_off_or_never_written_are_made_again(
    features: Features, tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may leave a file longer than what was written to it."""
    source, before = open_source(SOURCE), features.records.path.read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (work := tmp_path / "work").mkdir()
    size = record_form(source.features).itemsize
    for whole, long in ((112, 112), (40, 40), (90, 100)):
        again = compute_features(source, FeatureBackbone(source, work, 1), find_photos(tiles))
        assert again.records.path.read_bytes() == before
        with again.records.path.open("r+b") as records:
            records.truncate(whole * size - 17)
            records.truncate(long * size)


def test_a_new_photo_costs_one_photo_and_those_that_are_gone_are_dropped_in_time(
    tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source, folder = open_source(SOURCE), tmp_path / "photos"
    (work := tmp_path / "work").mkdir()
    shutil.copytree(tiles, folder)
    backbone, seen = FeatureBackbone(source, work, 1), []
    record = FeatureExtractor.record
    monkeypatch.setattr(
        FeatureExtractor, "record", lambda self, path, key: seen.append(path) or record(self, path, key)
    )

    def computed() -> tuple[Features, set[str]]:
        seen.clear()
        found = compute_features(source, backbone, find_photos(folder))
        for photo in (0, len(found) - 1):  # each row is of its own photo
            pixels = Preprocessor(source.view).pixels(found.path(photo).read_bytes())
            np.testing.assert_allclose(found.roots(np.array([photo])), backbone.roots(pixels[None]), atol=2e-3)
        return found, {path.name for path in seen}

    computed()
    shutil.copy(folder / "cat" / "00.jpg", folder / "aaa.jpg")
    assert computed()[1] == {"aaa.jpg"}
    shutil.copy(folder / "cat" / "01.jpg", folder / "aaa.jpg")
    found, again = computed()
    assert again == {"aaa.jpg"}
    assert len(found.records.stored()) == 114, "the record of the photo as it was is still there"
    for gone in sorted(folder.iterdir())[3:]:
        shutil.rmtree(gone)
    shutil.copy(folder / "aaa.jpg", folder / "bbb.jpg")
    found, again = computed()
    assert again == {"bbb.jpg"}
    assert len(found.records.stored()) == len(found) < 50
    assert computed()[1] == set()


def test_a_file_of_records_that_another_run_replaces_is_read_as_it_was(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "records"
    shutil.copy(features.records.path, path)
    one = Records(path, features.records.form)
    before = one.read("roots", np.arange(20))
    few = one.only(np.array([5, 7]))
    np.testing.assert_array_equal(one.read("roots", np.arange(20)), before)
    np.testing.assert_array_equal(few.read("roots", np.arange(2)), before[[5, 7]])


READS = """
import resource, sys
from pathlib import Path
import numpy as np
from nonneg_export.calibrate.photo_records import Records, record_form

records, rows = Records(Path(sys.argv[1]), record_form(64)), np.arange(4000) * 100
records.read("roots", rows[:10])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert not records.read("roots", rows).any()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_reading_some_records_of_a_large_file_takes_the_memory_of_these_alone(tmp_path: Path) -> None:
    """Not of what lies beside them in the file: else memory grows with the number of photos."""
    path = tmp_path / "records"
    with path.open("wb") as file:
        file.truncate(400_000 * record_form(64).itemsize)
    with path.open("rb") as file:
        while file.read(2**20):
            pass  # as `held` reads it: the system keeps it in its own memory
    told = subprocess.run([sys.executable, "-c", READS, path], check=True, stdout=subprocess.PIPE).stdout
    assert int(told) < 50_000  # KB; the file has 290,000


def test_many_equal_files_are_not_compared_with_each_other(features: Features, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    alike = fitting.likeness
    monkeypatch.setattr(fitting, "likeness", lambda *given: compared.append(len(given[1])) or alike(*given))
    head, before = open_source(SOURCE).head, split(features, open_source(SOURCE).head)
    once = sum(compared)
    compared.clear()
    again = np.concatenate([np.arange(len(features)), np.repeat(np.arange(len(features)), 30)])
    after = split(chosen(features, again), head)
    assert sum(compared) == once
    np.testing.assert_array_equal(after.judged, before.judged)
    compared.clear()
    with pytest.raises(DataInvalid, match="2000 photos, 20 of them different files and 1980 copies of others, are too"):
        split(chosen(features, np.arange(2000) % 20), head)
    assert not compared


def chosen(features: Features, numbers: NDArray[np.int64]) -> Features:
    """Some of the photos, or some of them often."""
    return replace(
        features, places=features.places[numbers], rows=features.rows[numbers], seals=features.seals[numbers]
    )


def test_of_many_classes_the_largest_show_how_photos_of_one_differ() -> None:
    np.testing.assert_array_equal(largest(np.array([0, 1, 1, 2, 2, 2, -1]), 2), [-1, 1, 1, 0, 0, 0, -1])
    np.testing.assert_array_equal(largest(np.array([3, -1, 3]), 2), [0, -1, 0])


def test_one_process_at_a_time_embeds_a_folder(tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = open_source(SOURCE)
    (work := tmp_path / "work").mkdir()
    few = Photos(tiles, find_photos(tiles).paths[:9])
    refused = []

    def meanwhile(done: int, _total: int | None) -> None:
        if done == 1:
            with pytest.raises(StorageFailed, match="another nonneg adapt is embedding"):
                compute_features(source, FeatureBackbone(source, work, 1), few)
            refused.append(done)

    assert len(compute_features(source, FeatureBackbone(source, work, 1), few, tick=meanwhile)) == 9
    assert refused


@pytest.mark.parametrize("keep_front", [True, False])
def test_the_front_of_the_source_is_kept_where_that_is_asked_for(
    features: Features, keep_front: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(SOURCE)
    parts, labels = split(features, source.head), labels_of(features, None)
    assert fit(source, features, parts, labels, Weights()).front == fitting.KEPT, "of few photos it always is"
    monkeypatch.setattr(fitting, "FEW", 10)
    fitted = fit(source, features, parts, labels, Weights(), keep_front=keep_front)
    assert fitted.front == (fitting.KEPT if keep_front else 0)
    rows = features.roots(parts.judged)
    one, other = (unit(head.embed(rows)[:, : fitting.KEPT]) for head in (fitted.head, source.head))
    assert np.allclose(one, other, atol=1e-4) == keep_front


def test_without_labels_all_photos_shape_the_head(features: Features) -> None:
    parts = split(features, open_source(SOURCE).head, judged=False)
    assert parts.fit.tolist() == list(range(112))
    assert (len(parts.judged), parts.copies) == (0, 0)


@pytest.mark.nightly
def test_training_teaches_short_prefixes_who_is_near_whom() -> None:
    """Rows around centres, a head of random columns: after training a prefix tells the centres apart."""
    g = np.random.default_rng(0)
    codes = np.arange(400) % 20
    rows = np.abs(g.normal(size=(20, 64))[codes] + 0.7 * g.normal(size=(400, 64))).astype(np.float32)
    nothing = np.zeros(256, dtype=np.float32)
    start = Head(g.normal(size=(64, 256)).astype(np.float32), nothing - 4)

    def found(head: Head) -> float:
        z = unit(head.embed(rows)[:, :64])
        cosine = z @ z.T
        np.fill_diagonal(cosine, -1)
        return float((codes[cosine.argmax(axis=1)] == codes).mean())

    assert found(train_front(start, rows, front=64)) > found(start) + 0.1
