"""`nonneg adapt`: a bundle for one's own photos, judged, resumable, and never half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto
from PIL import Image

from nonneg_core.errors import MissingExtra, StorageFailed
from nonneg_core.heads.adapted import Weights
from nonneg_core.heads.from_features import OPEN
from nonneg_core.heads.head import Head
from nonneg_core.pixels.view import View
from nonneg_core.shortening import unit
from nonneg_export.adaptation import judging
from nonneg_export.adaptation.backbone import Backbone, open_source
from nonneg_export.adaptation.features import Features, compute_features
from nonneg_export.adaptation.fitting import fit
from nonneg_export.adaptation.labels import Labels, labels_of
from nonneg_export.adaptation.records import record_form
from nonneg_export.adaptation.splitting import split
from nonneg_export.adaptation.training import STEPS_A_PHOTO, train_front, trained
from nonneg_export.assemble import Draft, rank, seal
from nonneg_export.commands.adapt import KEPT_DEFAULT
from nonneg_export.manifest_report import summary
from nonneg_export.model_card import card
from nonneg_export.photo_folder import Photos, find_photos
from nonneg_runtime.bundle import SHIPPED, open_bundle
from nonneg_runtime.evidence import Gain
from nonneg_runtime.golden import check
from nonneg_runtime.head_file import read_head
from nonneg_runtime.lexicon import read_lexicon
from nonneg_runtime.manifest import Provenance
from nonneg_runtime.names import read_names
from nonneg_runtime.open import open_session
from nonneg_runtime.preprocess import Preprocessor
from nonneg_runtime.variants import as_variant

SOURCE = "photo-fast"
SAID = ("weights", "weights_license", "data", "data_license")
NONNEG = str(Path(sys.executable).with_name("nonneg"))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


WITH_THE_SERVERS_EXTRA = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
for name in ("onnx", "torch", "scipy", "matplotlib"):
    sys.modules[name] = None
"""
MAIN = """
from nonneg_cli.table import main
main()
"""


def run(
    photos: Path, out: Path, *options: str, source: str = SOURCE, before: str = WITH_THE_SERVERS_EXTRA
) -> subprocess.CompletedProcess[str]:
    """`nonneg adapt` in a process of its own."""
    command = [sys.executable, "-c", before + MAIN, "adapt", str(photos), "--out", str(out), "--from", source, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


@pytest.fixture(scope="module")
def adapted(tiles: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    out = tmp_path_factory.mktemp("adapted") / "mine.bundle"
    done = run(tiles, out, "--force", "--json")
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


@pytest.fixture(scope="module")
def features(tiles: Path, tmp_path_factory: pytest.TempPathFactory) -> Features:
    source = open_source(SOURCE)
    backbone = Backbone(source, tmp_path_factory.mktemp("backbone"), 1)
    return compute_features(source, backbone, find_photos(tiles))


def test_the_bundle_is_whole_and_a_model_of_its_own(adapted: tuple[Path, dict[str, object]]) -> None:
    out, told = adapted
    bundle, source = open_bundle(out), open_bundle(SOURCE)
    assert bundle.manifest.fingerprint == told["fingerprint"] != source.manifest.fingerprint
    assert bundle.manifest.derived_from == source.manifest.fingerprint
    assert bundle.manifest.name == "mine"
    assert bundle.manifest.certificate is None, "that of the source says nothing of it"
    for form in (bundle, *(as_variant(bundle, variant) for variant in bundle.manifest.variants)):
        check(open_session(form.encoder, precision=form.manifest.precision), form.manifest)
    assert [variant.precision for variant in bundle.manifest.variants] == ["int8"]


def test_named_columns_are_those_of_the_source(adapted: tuple[Path, dict[str, object]]) -> None:
    out, _ = adapted
    mine, theirs = (read_head(folder / "head.safetensors") for folder in (out, SHIPPED / SOURCE))
    np.testing.assert_array_equal(mine.weight[:, -800:], theirs.weight[:, -800:])
    np.testing.assert_array_equal(mine.gate[-800:], theirs.gate[-800:])
    assert not np.allclose(mine.weight[:, 192:800], theirs.weight[:, 192:800])


def test_few_photos_leave_the_trained_front_as_it_was(adapted: tuple[Path, dict[str, object]]) -> None:
    out, _ = adapted
    mine, theirs = (read_head(folder / "head.safetensors") for folder in (out, SHIPPED / SOURCE))
    np.testing.assert_allclose(mine.weight[:, :192], 2 * theirs.weight[:, :192], rtol=1e-3)
    record = open_bundle(out).manifest.head
    assert record is not None
    assert record.trained == 192


def test_names_are_those_of_kept_columns(adapted: tuple[Path, dict[str, object]]) -> None:
    out, _ = adapted
    kept, whole = (read_names(folder / "names.json", 2048).names for folder in (out, SHIPPED / SOURCE))
    assert kept == tuple(name for name in whole if name.dimension >= 1248)
    record = open_bundle(out).manifest.names
    assert record is not None
    assert record.named == 800


def test_words_mean_kept_columns_alone(adapted: tuple[Path, dict[str, object]]) -> None:
    mine, theirs = (read_lexicon(folder / "lexicon.json", 2048) for folder in (adapted[0], SHIPPED / SOURCE))
    assert 1000 < len(mine.words) < len(theirs.words)
    assert not any(mine.vector(word)[:1248].any() for word in mine.words)
    alone = [word for word in mine.words if len(theirs.members(word)) == 1]
    assert all(np.array_equal(mine.vector(word), theirs.vector(word)) for word in alone[:200])


def test_at_most_a_quarter_is_active_on_photos_that_shaped_nothing(
    adapted: tuple[Path, dict[str, object]], features: Features
) -> None:
    head, parts = (
        read_head(adapted[0] / "head.safetensors"),
        split(features, read_head(SHIPPED / SOURCE / "head.safetensors")),
    )
    assert 0.15 < (head.embed(features.roots(parts.judged)) > 0).mean() <= 0.27


def test_manifest_card_and_description_tell_of_the_adaptation(adapted: tuple[Path, dict[str, object]]) -> None:
    manifest = open_bundle(adapted[0]).manifest
    record = manifest.adaptation
    assert record is not None
    assert (record.source, record.classes) == (SOURCE, 7)
    assert record.photos + record.judged <= 112
    assert {gain.length for gain in record.gains} == {"2048", "512", "256", "128", "64", "2048/205"}
    for text in (card(manifest), summary(manifest)):
        assert record.verdict in text
        assert "| length" in text
    assert "tiles" in manifest.provenance.data
    assert "7 classes" in manifest.provenance.data


def test_adapting_again_reads_what_was_embedded_and_gives_the_same_model(
    adapted: tuple[Path, dict[str, object]], tiles: Path, tmp_path: Path
) -> None:
    blind = "from nonneg_export.adaptation.features import Seer; Seer.record = None"
    again = run(tiles, tmp_path / "again.bundle", "--force", "--json", before=WITH_THE_SERVERS_EXTRA + blind)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["fingerprint"] == adapted[1]["fingerprint"]


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
    found = compute_features(source, Backbone(source, tmp_path, 1), find_photos(folder))
    parts = split(found, source.head)
    names = [{found.path(n).name.removeprefix("small-") + found.path(n).parent.name for n in part.tolist()}
             for part in (parts.fit, parts.gate, parts.judged)]  # fmt: skip
    assert parts.copies > 3
    assert not names[0] & names[2]
    assert not names[1] & names[2]
    assert len(parts.judged) == len(names[2])  # nor twice in the judging part


def test_the_part_of_a_photo_depends_on_its_content(tiles: Path, features: Features, tmp_path: Path) -> None:
    folder = tmp_path / "renamed"
    folder.mkdir()
    for i, path in enumerate(reversed(features.photos.paths)):
        shutil.copy(path, folder / f"{i:03}.jpg")
    source = open_source(SOURCE)
    renamed = compute_features(source, Backbone(source, tmp_path, 1), find_photos(folder))
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
    table.write_text("path,label\nnowhere.jpg,x\n")
    result = run(tiles, tmp_path / "x", "--labels", str(table))
    assert "names none of the 112 photos" in result.stderr
    assert result.returncode == 1


def test_without_labels_parts_of_photos_are_looked_for(tiles: Path, tmp_path: Path) -> None:
    folder = tmp_path / "flat"
    folder.mkdir()
    for path in tiles.rglob("*.jpg"):
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    result = run(folder, tmp_path / "flat.bundle", "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert {gain["metric"] for gain in told["gains"]} == {judging.FOUND}
    assert "cannot be known" in told["verdict"]
    assert told["classes"] == 0


LOSING = """
from nonneg_export.adaptation import adapt
from nonneg_runtime.evidence import Gain
worse = dict(length="512", metric="P@1", before=0.9, after=0.5, difference=-0.4, low=-0.5, high=-0.3, p=0.0001)
adapt.by_labels = lambda *_: [Gain(queries=99, **worse)]
"""


def test_a_loss_that_labels_show_keeps_the_default(tiles: Path, tmp_path: Path) -> None:
    out = tmp_path / "worse.bundle"
    kept = run(tiles, out, before=WITH_THE_SERVERS_EXTRA + LOSING)
    assert kept.returncode == KEPT_DEFAULT
    assert "loses P@1 at 512 (-0.400)" in kept.stdout
    assert "stay with photo-fast" in kept.stderr
    assert not out.exists()
    forced = run(tiles, out, "--force", "--json", before=WITH_THE_SERVERS_EXTRA + LOSING)
    assert forced.returncode == 0, forced.stderr
    assert json.loads(forced.stdout)["lost"] == [{"length": "512", "metric": "P@1", "difference": -0.4}]
    assert open_bundle(out).manifest.adaptation is not None


def test_only_what_chance_does_not_explain_is_a_loss() -> None:
    def gain(p: float, difference: float = -0.01, metric: str = "P@1") -> Gain:
        return Gain(
            length="64", metric=metric, before=0.5, after=0.5, difference=difference, low=0, high=0, p=p, queries=9
        )

    assert not judging.losses([gain(0.03), gain(0.9)])  # two comparisons: 0.025 each
    assert judging.losses([gain(0.02), gain(0.9)]) == [gain(0.02)]
    assert not judging.losses([gain(0.001, difference=0.1), gain(0.001, metric=judging.FOUND)])


def test_bad_files_are_left_out_and_named(tiles: Path, tmp_path: Path) -> None:
    good = (tiles / "cat" / "00.jpg").read_bytes()
    for name, data in {"good": good, "torn": good[:300], "empty": b"", "text": b"not a photo"}.items():
        (tmp_path / f"{name}.jpg").write_bytes(data)
    with (tmp_path / "huge.jpg").open("wb") as file:
        file.truncate(300 * 2**20)
    source = open_source(SOURCE)
    (work := tmp_path / "work").mkdir()
    for _ in range(2):  # computed, then read
        found = compute_features(source, Backbone(source, work, 1), find_photos(tmp_path))
        assert [found.path(photo).name for photo in range(len(found))] == ["good.jpg"]
        reasons = {path.name: reason for path, reason in found.broken}
        assert set(reasons) == {"torn.jpg", "empty.jpg", "text.jpg", "huge.jpg"}
        assert "314572800 bytes" in reasons["huge.jpg"]


@pytest.mark.parametrize("kind", ["few", "one photo again and again"])
def test_too_few_different_photos_are_refused(tiles: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    for i, path in enumerate(sorted(tiles.rglob("*.jpg"))[:40]):
        shutil.copy(path if kind == "few" else tiles / "cat" / "00.jpg", folder / f"{i}.jpg")
    result = run(folder, tmp_path / "x.bundle")
    assert result.returncode == 1
    assert "too few" in result.stderr
    assert not (tmp_path / "x.bundle").exists()


@pytest.mark.parametrize("codes", [[0] * 9, range(9), [-1] * 9, [-1] * 8 + [0]])
def test_labels_that_say_nothing_are_as_none(codes: list[int]) -> None:
    assert not Labels(np.array(codes), tuple("abcdefghi")).useful
    assert Labels(np.array([0, 1, 1]), ("a", "b")).useful


def test_any_bundle_can_be_adapted_by_its_embedding(tiny: ModelProto, tiles: Path, tmp_path: Path) -> None:
    """One without a head in a file of its own, as `nonneg export` and `nonneg wrap` make them."""
    draft = Draft(tiny, View(size=16), "tiny", "1", "relu", Provenance(**dict.fromkeys(SAID, "x")))
    plain = seal(rank(draft, find_photos(tiles), tmp_path / "work"), tmp_path / "tiny.bundle")
    out = tmp_path / "mine.bundle"
    result = run(tiles, out, "--force", "--json", source=str(plain.path), before="")
    assert result.returncode == 0, result.stderr
    mine = open_bundle(out)
    assert mine.manifest.dimensions == plain.manifest.dimensions
    head, pixels = (
        read_head(out / "head.safetensors"),
        np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), np.uint8),
    )
    expected = head.embed(np.sqrt(open_session(plain.encoder).run(pixels)))
    np.testing.assert_allclose(open_session(mine.encoder).run(pixels), expected, rtol=1e-3, atol=1e-3)
    assert open_source(out).ordinary is not None  # so that it can be adapted where there is no onnx


def test_such_a_bundle_needs_onnx_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("nonneg_export.adaptation.backbone.find_spec", lambda _: None)
    small = tmp_path / "other.bundle"
    shutil.copytree(SHIPPED / SOURCE, small)
    sealed = open_bundle(SOURCE).manifest.model_copy(update={"head": None}).sealed()
    (small / "manifest.json").write_text(sealed.to_json())
    with pytest.raises(MissingExtra, match="needs onnx"):
        open_source(small)


def test_an_adapted_bundle_can_be_adapted(adapted: tuple[Path, dict[str, object]]) -> None:
    mine, theirs = open_source(adapted[0]), open_source(SOURCE)
    np.testing.assert_array_equal(mine.ordinary.covariance, theirs.ordinary.covariance)
    assert mine.named == theirs.named == 800
    assert mine.digest == theirs.digest  # the same features, so that none is computed again


def test_records_that_were_cut_off_or_never_written_are_made_again(
    features: Features, tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may leave a file longer than what was written to it."""
    source, before = open_source(SOURCE), features.records.file.read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (work := tmp_path / "work").mkdir()
    size = record_form(source.features).itemsize
    for whole, long in ((112, 112), (40, 40), (90, 100)):
        again = compute_features(source, Backbone(source, work, 1), find_photos(tiles))
        assert again.records.file.read_bytes() == before
        with again.records.file.open("r+b") as records:
            records.truncate(whole * size - 17)
            records.truncate(long * size)


def test_one_process_at_a_time_embeds_a_folder(tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = open_source(SOURCE)
    (work := tmp_path / "work").mkdir()
    few = Photos(tiles, find_photos(tiles).paths[:9])
    refused = []

    def meanwhile(done: int, _total: int | None) -> None:
        if done == 1:
            with pytest.raises(StorageFailed, match="another nonneg adapt is embedding"):
                compute_features(source, Backbone(source, work, 1), few)
            refused.append(done)

    assert len(compute_features(source, Backbone(source, work, 1), few, tick=meanwhile)) == 9
    assert refused


def test_a_killed_run_goes_on_and_leaves_nothing_half_written(tiles: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed.bundle"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [
        str(Path(sys.executable).with_name("nonneg")),
        "adapt",
        str(tiles),
        "-o",
        str(out),
        "--from",
        SOURCE,
        "--force",
    ]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (written := list((tmp_path / "cache").rglob("records"))) or not written[0].stat().st_size:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not out.exists()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert open_bundle(out).manifest.adaptation is not None


def test_a_full_disk_is_said_and_leaves_nothing(tiles: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [
        str(Path(sys.executable).with_name("nonneg")),
        "adapt",
        str(tiles),
        "-o",
        str(tmp_path / "x"),
        "--from",
        SOURCE,
    ]
    limited = ["bash", "-c", 'ulimit -f 200; exec "$@"', "-", *command]  # files of at most 200 kB
    done = subprocess.run(limited, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode not in (0, KEPT_DEFAULT)
    assert not (tmp_path / "x").exists()
    again = subprocess.run(
        [*command, "--force"], env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("labelled", [True, False])
def test_training_changes_the_front_alone_and_follows_the_number_of_photos(features: Features, labelled: bool) -> None:
    source = open_source(SOURCE)
    parts, labels = split(features, source.head), labels_of(features, None)
    fitted = fit(source, features, parts, labels, Weights() if labelled else Weights(labels=0))
    told: list[tuple[int, int | None]] = []
    found = trained(fitted, features, parts, labels, lambda done, total: told.append((done, total)))
    assert (found.front, found.steps) == (OPEN, int(STEPS_A_PHOTO * len(parts.fit)))
    assert told[-1] == (found.steps, found.steps)
    before, after = fitted.head, found.head
    np.testing.assert_array_equal(after.weight[:, OPEN:], before.weight[:, OPEN:])
    assert not np.allclose(after.weight[:, :OPEN], before.weight[:, :OPEN])
    assert 0.2 < (after.embed(features.roots(parts.gate)) > 0).mean() < 0.25


def test_training_teaches_short_prefixes_who_is_near_whom() -> None:
    """Rows around centres, a head of random columns: after training a prefix tells the centres apart."""
    g = np.random.default_rng(0)
    codes = np.arange(400) % 20
    rows = np.abs(g.normal(size=(20, 64))[codes] + 0.7 * g.normal(size=(400, 64))).astype(np.float32)
    nothing = np.zeros(256, dtype=np.float32)
    start = Head(g.normal(size=(64, 256)).astype(np.float32), nothing - 4, nothing)

    def found(head: Head) -> float:
        z = unit(head.embed(rows)[:, :64])
        cosine = z @ z.T
        np.fill_diagonal(cosine, -1)
        return float((codes[cosine.argmax(axis=1)] == codes).mean())

    after, steps = train_front(start, rows, codes, front=64)
    assert steps == 200
    assert found(after) > found(start) + 0.1


def test_training_needs_torch_and_says_so_before_anything_is_embedded(tiles: Path, tmp_path: Path) -> None:
    result = run(tiles, tmp_path / "x.bundle", "--train")
    assert result.returncode == 1
    assert "--train needs torch" in result.stderr
    assert "install" in result.stderr
