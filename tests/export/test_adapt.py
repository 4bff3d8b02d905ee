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

from nonneg_core.errors import MissingExtra
from nonneg_core.pixels.view import View
from nonneg_core.shortening import unit
from nonneg_export.adapt import judging
from nonneg_export.adapt.backbone import FeatureBackbone, open_source
from nonneg_export.adapt.fitting import KEPT, split
from nonneg_export.adapt.judging import verdict
from nonneg_export.adapt.photo_features import compute_features
from nonneg_export.assembly.calibrate_and_seal import Draft, rank, seal
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_export.commands.adapt import KEPT_DEFAULT
from nonneg_export.share.manifest_report import summary
from nonneg_export.share.model_card import card
from nonneg_runtime.bundle.bundle_folder import SHIPPED, open_bundle
from nonneg_runtime.bundle.evidence import Gain
from nonneg_runtime.bundle.head_file import fitted_on, read_head
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import check_golden
from nonneg_runtime.inference.text_tower import SentenceEncoder, SentenceTower, read_map, text_tower
from nonneg_runtime.inference.variants import as_variant
from nonneg_runtime.words.lexicon import read_lexicon
from nonneg_runtime.words.names import read_names
from nonneg_runtime.words.text_vector import vector_of

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


def test_the_bundle_is_whole_and_a_model_of_its_own(adapted: tuple[Path, dict[str, object]]) -> None:
    out, told = adapted
    bundle, source = open_bundle(out), open_bundle(SOURCE)
    assert bundle.manifest.fingerprint == told["fingerprint"] != source.manifest.fingerprint
    assert bundle.manifest.derived_from == source.manifest.fingerprint
    assert bundle.manifest.name == "mine"
    assert bundle.manifest.certificate is None, "that of the source says nothing of it"
    for form in (bundle, *(as_variant(bundle, variant) for variant in bundle.manifest.variants)):
        check_golden(open_session(form.encoder, precision=form.manifest.precision), form.manifest)
    assert [variant.precision for variant in bundle.manifest.variants] == ["int8"]


def test_named_columns_are_those_of_the_source(adapted: tuple[Path, dict[str, object]]) -> None:
    out, _ = adapted
    mine, theirs = (read_head(folder / "head.safetensors") for folder in (out, SHIPPED / SOURCE))
    named = open_source(SOURCE).named
    assert len(named) == 800
    np.testing.assert_array_equal(mine.weight[:, -800:], theirs.weight[:, named])


def test_few_photos_leave_the_front_as_it_was(adapted: tuple[Path, dict[str, object]]) -> None:
    out, _ = adapted
    mine, theirs = (read_head(folder / "head.safetensors") for folder in (out, SHIPPED / SOURCE))
    np.testing.assert_allclose(mine.weight[:, :KEPT], 2 * theirs.weight[:, :KEPT], rtol=1e-3)
    record = open_bundle(out).manifest.head
    assert record is not None
    assert record.trained == KEPT


def test_the_photos_that_shaped_it_are_known(
    adapted: tuple[Path, dict[str, object]], tiles: Path, tmp_path: Path
) -> None:
    out, told = adapted
    photos, vectors = sorted(tiles.rglob("*.jpg")), tmp_path / "mine.npz"
    assert fitted_on(out, photos) == told["photos"]
    assert fitted_on(SHIPPED / SOURCE, photos) == 0
    embeds = [NONNEG, "embed", str(tiles), "-o", str(vectors), "--bundle", str(out), "--quiet"]
    subprocess.run(embeds, check=True, timeout=250)
    for model, words, count in (
        (("--bundle", str(out)), f"B: mine was fitted on {told['photos']} of these images", 800),
        ((), "B: the bundle of mine", None),
    ):
        compares = [NONNEG, "compare", str(tiles), f"{vectors}@64", str(vectors), "--json", *model]
        done = subprocess.run(compares, capture_output=True, text=True, timeout=250, check=True)
        assert words in done.stderr
        compared = json.loads(done.stdout)
        assert (compared["named_dimensions"]["b"], compared["fitted_on"]["b"]) == (count, count and told["photos"])


def test_names_are_those_of_kept_columns(adapted: tuple[Path, dict[str, object]]) -> None:
    out, _ = adapted
    kept, whole = (read_names(folder / "names.json", 2048).names for folder in (out, SHIPPED / SOURCE))
    assert [name.dimension for name in kept] == list(range(1248, 2048))
    assert [name.klass for name in kept] == [name.klass for name in whole if name.source == "direction"]
    record = open_bundle(out).manifest.names
    assert record is not None
    assert record.named == 800


def test_a_text_goes_the_way_of_a_photo_through_the_new_head(adapted: tuple[Path, dict[str, object]]) -> None:
    text = "a wall of stones beside the sea"
    mine, theirs = open_bundle(adapted[0]), open_bundle(SOURCE)
    tower = text_tower(mine)
    assert isinstance(tower, SentenceTower)
    sentence = SentenceEncoder().run(tower.tokens(text))
    read, head = read_map(mine.path / "sentences.safetensors"), read_head(mine.path / "head.safetensors")
    features = read.mean + read.reach * unit(sentence @ read.weight + read.bias)
    by_hand = np.maximum(features @ head.weight + head.bias, 0) ** 0.8
    np.testing.assert_allclose(vector_of(mine, text), unit(by_hand), atol=1e-4)
    assert vector_of(mine, text) @ vector_of(theirs, text) < 0.999


def test_words_mean_kept_columns_alone(adapted: tuple[Path, dict[str, object]]) -> None:
    mine, theirs = (read_lexicon(folder / "lexicon.json", 2048) for folder in (adapted[0], SHIPPED / SOURCE))
    assert 1000 < len(mine.words) < len(theirs.words)
    assert not any(mine.vector(word)[:1248].any() for word in mine.words)
    alone = [word for word in mine.words if len(theirs.members(word)) == 1]
    named = open_source(SOURCE).named
    assert all(np.array_equal(mine.vector(word)[1248:], theirs.vector(word)[named]) for word in alone[:200])


def test_about_half_is_active_on_photos_that_shaped_nothing(
    adapted: tuple[Path, dict[str, object]], tiles: Path, tmp_path: Path
) -> None:
    source = open_source(SOURCE)
    features = compute_features(source, FeatureBackbone(source, tmp_path, 1), find_photos(tiles))
    head, parts = read_head(adapted[0] / "head.safetensors"), split(features, source.head)
    assert 0.4 < (head.embed(features.roots(parts.judged)) > 0).mean() < 0.6


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


@pytest.mark.slow
def test_adapting_again_reads_what_was_embedded_and_gives_the_same_model(
    adapted: tuple[Path, dict[str, object]], tiles: Path, tmp_path: Path
) -> None:
    blind = "from nonneg_export.adapt.photo_features import FeatureExtractor; FeatureExtractor.record = None"
    again = run(tiles, tmp_path / "again.bundle", "--force", "--json", before=WITH_THE_SERVERS_EXTRA + blind)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["fingerprint"] == adapted[1]["fingerprint"]


@pytest.mark.nightly
def test_without_labels_nothing_is_measured_and_all_photos_shape_it(tiles: Path, tmp_path: Path) -> None:
    folder = tmp_path / "flat"
    folder.mkdir()
    for path in tiles.rglob("*.jpg"):
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    result = run(folder, tmp_path / "flat.bundle", "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["gains"], told["classes"], told["photos"], told["judged"]) == ([], 0, 112, 0)
    assert "not measured" in told["verdict"]
    refused = run(tiles, tmp_path / "x.bundle", "--others", str(folder))
    assert refused.returncode == 1
    assert "has no labels: nothing can be judged by it" in refused.stderr


LOSING = """
from nonneg_export.adapt import adaptation
from nonneg_runtime.bundle.evidence import Gain
worse = dict(length="512", metric="mAP@100", before=0.9, after=0.5, difference=-0.4, low=-0.5, high=-0.3, p=0.0001)
adaptation.by_labels = lambda *_: [Gain(queries=99, **worse)]
"""


@pytest.mark.nightly
def test_a_loss_that_labels_show_keeps_the_default(tiles: Path, tmp_path: Path) -> None:
    out = tmp_path / "worse.bundle"
    table = tmp_path / "labels.csv"
    lines = [f"{path}, {path.parent.name}" for path in sorted(tiles.rglob("*.jpg"))]
    table.write_text("\n".join(["path,label", *lines, "lost.jpg,cat"]))
    kept = run(tiles, out, "--labels", str(table), before=WITH_THE_SERVERS_EXTRA + LOSING)
    assert kept.returncode == KEPT_DEFAULT
    assert "labels.csv: 1 of 113 lines name none of the photos (the first is lost.jpg)" in kept.stderr
    assert "loses mAP@100 at 512 (-0.400)" in kept.stdout
    assert "stay with photo-fast" in kept.stderr
    assert not out.exists()
    both = ("--force", "--json", "--others", str(tiles))
    forced = run(tiles, out, *both, before=WITH_THE_SERVERS_EXTRA + LOSING)
    assert forced.returncode == 0, forced.stderr
    told = json.loads(forced.stdout)
    assert told["lost"] == [{"length": "512", "metric": "mAP@100", "difference": -0.4}]
    assert {gain["metric"] for gain in told["gains"]} == {"mAP@100", "others' mAP@100"}
    assert "On the photos of other kinds mAP@100 changed by -0.400" in told["verdict"]
    record = open_bundle(out).manifest.adaptation
    assert record is not None
    assert "others' mAP@100 |" in summary(open_bundle(out).manifest)


def test_only_what_chance_does_not_explain_is_a_loss() -> None:
    def gain(p: float, difference: float = -0.01, metric: str = "mAP@100") -> Gain:
        return Gain(
            length="64", metric=metric, before=0.5, after=0.5, difference=difference, low=0, high=0, p=p, queries=9
        )

    assert not judging.losses([gain(0.03), gain(0.9)])  # two comparisons: 0.025 each
    assert judging.losses([gain(0.02), gain(0.9)]) == [gain(0.02)]
    assert not judging.losses([gain(0.001, difference=0.1)])
    point, more = gain(0.001, difference=-0.01), gain(0.001, difference=-0.02)
    assert [g.metric for g in judging.losses([point, *judging.of_others([point, more])])] == [
        "mAP@100", "others' mAP@100",
    ]  # fmt: skip
    said = verdict([*[gain(0.9)] * 9, *judging.of_others([more])], 500)
    assert said.startswith(
        "Against the model it was made from it loses others' mAP@100 at 64 (-0.020). mAP@100 changed by"
    )
    assert said.endswith("On the photos of other kinds mAP@100 changed by -0.020 at 64.")


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


def test_any_bundle_can_be_adapted_by_its_embedding(tiny: ModelProto, tiles: Path, tmp_path: Path) -> None:
    """One without a head in a file of its own, as `nonneg export` makes them."""
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
    assert open_source(out).ordinary is not None  # so that it can be adapted without onnx


def test_such_a_bundle_needs_onnx_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("nonneg_export.adapt.backbone.find_spec", lambda _: None)
    small = tmp_path / "other.bundle"
    shutil.copytree(SHIPPED / SOURCE, small)
    sealed = open_bundle(SOURCE).manifest.model_copy(update={"head": None}).sealed()
    (small / "manifest.json").write_text(sealed.to_json())
    with pytest.raises(MissingExtra, match="needs onnx"):
        open_source(small)


def test_an_adapted_bundle_can_be_adapted(adapted: tuple[Path, dict[str, object]]) -> None:
    mine, theirs = open_source(adapted[0]), open_source(SOURCE)
    np.testing.assert_array_equal(mine.ordinary.covariance, theirs.ordinary.covariance)
    assert mine.named.tolist() == list(range(1248, 2048))
    assert len(theirs.named) == 800
    assert mine.digest == theirs.digest  # the same features, so that none is computed again


@pytest.mark.nightly
@pytest.mark.slow
def test_a_killed_run_goes_on_and_leaves_nothing_half_written(tiles: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed.bundle"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [NONNEG, "adapt", str(tiles), "-o", str(out), "--from", SOURCE, "--force"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (written := list((tmp_path / "cache").rglob("records"))) or not written[0].stat().st_size:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not out.exists()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert open_bundle(out).manifest.adaptation is not None


@pytest.mark.nightly
def test_a_full_disk_is_said_and_leaves_nothing(tiles: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [NONNEG, "adapt", str(tiles), "-o", str(tmp_path / "x"), "--from", SOURCE]
    limited = ["bash", "-c", 'ulimit -f 200; exec "$@"', "-", *command]  # files of at most 200 kB
    done = subprocess.run(limited, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode not in (0, KEPT_DEFAULT)
    assert "Fix:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()
    again = subprocess.run(
        [*command, "--force"], env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert again.returncode == 0, again.stderr


def test_a_weight_of_labels_is_refused_where_there_are_none_before_anything_is_embedded(
    tiles: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiles / "cat", tmp_path / "photos")
    result = run(tmp_path / "photos", tmp_path / "x.bundle", "--labels-weight", "0.5")
    assert result.returncode == 1
    assert "--labels-weight=0.5 changes nothing" in result.stderr
    assert "Fix:" in result.stderr
    assert "embedding" not in result.stderr
