"""`nonneg certify`: the default model passes, a random head does not, and what cannot be measured is said."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
from click.testing import CliRunner
from features_of_photos import looked
from PIL import Image

from nonneg_export.calibrate.photo_folder import load_pixels
from nonneg_export.certify.certification import CertificateFigures
from nonneg_export.certify.certified_encoders import Certified, edited
from nonneg_export.commands.certify import EXIT, certify
from nonneg_export.commands.whole_bundles import info
from nonneg_export.share.model_card import card
from nonneg_runtime.bundle.bundle_folder import DEFAULT, SHIPPED, Bundle, open_bundle
from nonneg_runtime.bundle.head_file import HEAD, read_head
from nonneg_runtime.heads.head import Head, taken
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.words.names import read_names
from nonneg_vectors.evaluation.certificate_splits import pasted_pairs, split_for_certificate

SAMPLES = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
OF_EACH = 8
NAMED = np.array(  # columns of photo along a class
    [name.dimension for name in read_names(DEFAULT / "names.json", 2048).names if name.source == "direction"]
)


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """folder/class/image.jpg: five photographs, crops of each drawn by chance."""
    folder, rng = tmp_path_factory.mktemp("pictured"), np.random.default_rng(0)
    for path in (Path(skimage.data.__file__).parent / name for name in SAMPLES):
        photo = Image.open(path).convert("RGB")
        photo.thumbnail((480, 480))
        (folder / path.stem).mkdir()
        for i in range(OF_EACH):
            w, h = (int(side * rng.uniform(0.5, 0.9)) for side in photo.size)
            x, y = rng.integers(0, photo.width - w), rng.integers(0, photo.height - h)
            photo.crop((x, y, x + w, y + h)).save(folder / path.stem / f"{i}.jpg", quality=90)
    return folder


MEANS = {"consistency", "monosemanticity"}  # over dimensions: no head is above an untrained one


def run(*arguments: object) -> tuple[int, dict[str, Any]]:
    """Exit code and record of the command."""
    result = CliRunner().invoke(certify, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.output) if result.output.startswith("{") else {"said": result.exception}


def deciding(found: CertificateFigures) -> list[tuple[str, int]]:
    """The figures that a verdict stands on, and of how many dimensions they are."""
    return [(figure.name, figure.dimensions) for figure in found.figures if figure.decides]


def along_classes() -> Head:
    """The columns of the default model that have a class's name."""
    return taken(read_head(DEFAULT / HEAD), NAMED)


@pytest.mark.slow
def test_the_default_model_fails_by_its_means_alone() -> None:
    found = looked().through(read_head(DEFAULT / HEAD), NAMED)
    assert found.outcome == "fail"
    asked = [figure for figure in found.figures if figure.name not in MEANS]
    assert [figure.name for figure in asked] == ["probe@1", "probe@5", "pasted", "cropped", "recoloured"]
    assert min(above.low for figure in asked for above in figure.above.values()) > 0
    assert deciding(found) == [(figure.name, 800) for figure in found.figures if figure.dimensions == 800]
    assert {figure.name for figure in found.figures if not figure.decides} == MEANS


@pytest.mark.nightly
def test_a_random_head_fails_though_it_claims_the_same_names() -> None:
    seen, like = looked(), read_head(DEFAULT / HEAD)
    weight = np.random.default_rng(3).normal(size=like.weight.shape).astype(np.float32) / 20
    found = seen.through(Head(weight, -(seen.rows.mean(axis=0) @ weight), like.power), NAMED)
    assert found.outcome == "fail"
    assert "is not above an untrained head" in found.reason


def test_photos_of_one_class_decide_nothing_and_that_is_said() -> None:
    seen = looked()
    some = seen.truth.classes % 4 == 0
    alone = np.zeros_like(seen.truth.classes[some])
    by = split_for_certificate(alone)
    asked = replace(seen.truth, classes=alone, judge=seen.truth.judge[some], teaching=by, pairs=pasted_pairs(by, 10))
    found = replace(seen, rows=seen.rows[some], truth=asked, shown={}).through(along_classes(), np.arange(800))
    assert found.outcome == "not decided"
    assert [figure.name for figure in found.figures] == ["monosemanticity"]
    assert "consistency is not measured: the photos are of one class" in found.reason


def test_without_an_untrained_head_nothing_is_decided() -> None:
    seen = looked()
    shown = {kind: along_classes().embed(rows) for kind, rows in seen.shown.items()}
    found = replace(seen, rows=along_classes().embed(seen.rows), shown=shown).through(None, np.arange(800))
    assert (found.outcome, found.reason) == (
        "not decided",
        "an untrained head is not measured: the bundle has no head in a file of its own",
    )


@pytest.mark.slow
def test_a_certificate_stands_in_the_bundle_and_on_its_card(pictured: Path, tmp_path: Path) -> None:
    code, found = run("photo", "--images", pictured, "--out", tmp_path / "mine.bundle", "--data", "crops")
    assert code == EXIT[found["outcome"]] == 3, "crops of one photograph are told apart by any head"
    assert found["judge"].startswith("photo-fast ")
    kept = open_bundle(tmp_path / "mine.bundle").manifest
    assert kept.fingerprint == open_bundle("photo").manifest.fingerprint
    assert kept.certificate is not None
    assert kept.certificate.model_dump(mode="json") == {k: v for k, v in found.items() if k != "model"}
    shown = CliRunner().invoke(info, [str(tmp_path / "mine.bundle")], catch_exceptions=False).output
    for text in (shown, card(kept)):
        assert "meaning of the dimensions on crops: 40 photos of 5 classes" in text
        assert "monosemanticity" in text
        assert "fail: " in text


@pytest.mark.parametrize("name", ["photo", "photo-fast"])
def test_a_shipped_model_carries_a_certificate_that_says_what_fails(name: str) -> None:
    found = open_bundle(name).manifest.certificate
    assert found is not None
    assert (found.outcome, found.images, found.classes) == ("fail", 2525, 101)
    short = {figure.name for figure in found.figures if min(above.low for above in figure.above.values()) <= 0}
    assert short == MEANS
    assert all(f"{name} of 800 dimensions" in found.reason for name in MEANS)
    assert any("means over all dimensions do not decide" in text for text in found.missing)


def test_the_default_model_says_how_alike_its_names_are_over_seeds() -> None:
    names = open_bundle().manifest.names
    assert names is not None
    assert names.stability is not None
    assert names.stability.correlation > 10 * names.stability.floor
    told = CliRunner().invoke(info, [], catch_exceptions=False).output
    assert "of 3 seeds two share 98% of the names" in told


@pytest.mark.parametrize("judge", ["photo", "photo-fast.copy"])
def test_a_model_does_not_judge_itself(judge: str, pictured: Path, tmp_path: Path) -> None:
    name = judge.partition(".")[0]
    copy = shutil.copytree(SHIPPED / name, tmp_path / judge) if judge != name else Path(judge)
    code, found = run(name, "--images", pictured, "--judge", copy)
    assert code == 1
    assert found["said"].field == "judge"
    assert "both see photos through the same network" in found["said"].message


def test_few_photos_and_loose_ones_are_refused(pictured: Path, tmp_path: Path) -> None:
    shutil.copytree(pictured / "coffee", tmp_path / "few" / "coffee")
    assert "8 photos are too few" in run("photo", "--images", tmp_path / "few")[1]["said"].message
    assert "lies in no labelled subfolder" in run("photo", "--images", pictured / "coffee")[1]["said"].message


def test_what_is_certified_are_the_vectors_of_the_bundle(pictured: Path, tmp_path: Path) -> None:
    bundle: Bundle = open_bundle("photo-fast")
    certified, session = Certified(bundle, tmp_path, 1), open_session(bundle.encoder)
    pixels = np.stack([load_pixels(path, bundle.manifest.view)[0] for path in sorted(pictured.rglob("0.jpg"))])
    assert certified.head is not None
    found, expected = certified.head.embed(certified.rows(pixels)), session.run(pixels)
    assert np.mean((found > 0) == (expected > 0)) > 0.999
    cosine = (found * expected).sum() / np.linalg.norm(found) / np.linalg.norm(expected)
    assert cosine > 0.999


def test_a_picture_is_pasted_into_another_and_cropped_back_to_it() -> None:
    donor, host = Image.new("RGB", (90, 60), (200, 100, 0)), Image.new("RGB", (50, 80), (0, 0, 255))
    made = edited(donor, host, 20, corner=3)
    assert {kind: picture.size for kind, picture in made.items()} == {
        "pasted": (40, 40), "cropped": (20, 20), "recoloured": (40, 40),
    }  # fmt: skip
    assert [made["pasted"].getpixel(at) for at in ((5, 5), (35, 5), (35, 35))] == [(0, 0, 255)] * 2 + [(200, 100, 0)]
    assert made["cropped"].getcolors() == [(400, (200, 100, 0))]
    assert made["recoloured"].getpixel((0, 0)) == (100, 0, 200)
