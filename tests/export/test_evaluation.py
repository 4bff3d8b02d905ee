from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto
from PIL import Image

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.assembly.calibrate_and_seal import Draft, RankedDraft, rank, report, seal
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_export.share.manifest_report import draw, structure, summary
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.inference.onnx_session import Session
from nonneg_vectors.evaluation.ranking import retrieval

SOURCE = Provenance(weights="random", weights_license="CC0", data="none", data_license="CC0")


@pytest.fixture(scope="module")
def ranked(tiny: ModelProto, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> RankedDraft:
    draft = Draft(model=tiny, view=View(size=16), name="tiny", version="1", activation="relu", provenance=SOURCE)
    return rank(draft, find_photos(labelled), tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def reported(ranked: RankedDraft, held_out: Path, tmp_path_factory: pytest.TempPathFactory) -> RankedDraft:
    return report(ranked, find_photos(held_out), tmp_path_factory.mktemp("quality"))


def test_the_manifest_carries_retrieval_at_every_length_and_selection(reported: RankedDraft, held_out: Path) -> None:
    quality = reported.manifest.quality
    assert quality is not None
    assert (quality.images, quality.classes, quality.queries, quality.k) == (60, 6, 60, 100)
    assert {row.selection for row in quality.rows} == {"expected-activation", "random", "variance", "pca"}
    assert {row.top_k for row in quality.rows if row.dimensions == 24} == {None, 16, 2}

    paths = sorted(held_out.rglob("*.jpg"))
    session, view = Session(reported.encoder), reported.manifest.view
    z = np.concatenate([session.run(load_pixels(path, view)[0][None]) for path in paths])
    means = retrieval(z, [path.parent.name for path in paths]).means()
    whole = quality.rows[0]
    assert (whole.p_at_1, whole.p_at_10, whole.map_at_k, whole.knn) == pytest.approx(
        (means["P@1"], means["P@10"], means["mAP@100"], means["kNN"]), rel=1e-3
    )


def test_what_the_dimensions_are_like_is_reported_beside_its_floor(reported: RankedDraft) -> None:
    assert reported.manifest.quality is not None
    found = reported.manifest.quality.structure
    assert 0 < found.consistency_floor < found.consistency <= 1
    assert set(found.sepin) == {"1", "10", "all"}
    assert "InfoNCE" in found.sepin_estimator
    assert all(low <= found.sepin[k] <= high for k, (low, high) in found.sepin_intervals.items())
    assert "] (nats, by the InfoNCE bound" in structure(found)


def test_quality_is_never_reported_on_calibration_images(ranked: RankedDraft, labelled: Path, tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match="60 of the 60 evaluation images are also calibration images"):
        report(ranked, find_photos(labelled), tmp_path)


def test_images_outside_class_folders_are_refused(ranked: RankedDraft, held_out: Path, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(held_out, tmp_path / "photos"))
    shutil.move(photos / "coffee" / "00.jpg", photos / "loose.jpg")
    with pytest.raises(DataInvalid, match=r"loose\.jpg lies in no labelled subfolder"):
        report(ranked, find_photos(photos), tmp_path / "work")


def test_a_class_of_one_image_is_counted(ranked: RankedDraft, held_out: Path, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(held_out, tmp_path / "photos"))
    for path in sorted((photos / "coffee").iterdir())[1:]:
        path.unlink()
    manifest = report(ranked, find_photos(photos), tmp_path / "work").manifest
    assert manifest.quality is not None
    assert manifest.quality.lonely_classes == 1
    assert "(1 with one image)" in summary(manifest)


def test_a_bundle_with_a_report_brings_table_and_plots(reported: RankedDraft, tmp_path: Path) -> None:
    bundle = seal(reported, tmp_path / "bundle")
    assert set(bundle.manifest.files) == {"encoder.onnx", "quality.md", "quality.png", "quality.svg"}
    assert open_bundle(bundle.path).manifest.quality == reported.manifest.quality
    assert "| expected activation |   24 |" in (bundle.path / "quality.md").read_text()
    assert (bundle.path / "quality.svg").read_text().startswith("<?xml")
    with Image.open(bundle.path / "quality.png") as picture:
        assert picture.width > 1000


def test_the_same_report_draws_the_same_plot(reported: RankedDraft, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        draw(reported.manifest, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_plot_needs_a_report_and_a_format_it_knows(
    ranked: RankedDraft, reported: RankedDraft, tmp_path: Path
) -> None:
    with pytest.raises(DataInvalid, match="no quality report"):
        draw(ranked.manifest, tmp_path / "a.png")
    with pytest.raises(DataInvalid, match=r"a\.gif: a plot is png or svg"):
        draw(reported.manifest, tmp_path / "a.gif")
