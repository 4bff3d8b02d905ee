from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from nonneg_core.errors import CheckFailed, DataInvalid
from nonneg_core.shortening import unit
from nonneg_export import default
from nonneg_export.commands.build_default import build_default
from nonneg_export.photos import see
from nonneg_runtime.bundle import DEFAULT, Bundle, open_bundle
from nonneg_runtime.golden import check
from nonneg_runtime.session import Session


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return default.build(default.read_recipe(), tmp_path_factory.mktemp("default") / "bundle")


def test_the_shipped_bundle_is_whole_and_small() -> None:
    bundle = open_bundle()
    assert bundle.path == DEFAULT
    assert bundle.manifest.dimensions == 1280
    assert sum(path.stat().st_size for path in DEFAULT.iterdir()) < 7 * 2**20


@pytest.mark.parametrize("name", ["encoder.onnx", "manifest.json"])
def test_a_rebuild_from_the_recipe_repeats_the_shipped_bytes(rebuilt: Bundle, name: str) -> None:
    assert (rebuilt.path / name).read_bytes() == (DEFAULT / name).read_bytes()


def test_float16_storage_hardly_moved_its_vectors() -> None:
    found = {check.name: check.value for check in open_bundle().manifest.checks}
    assert found["cosine"] < 1e-4
    assert found["neighbours"] < 0.01
    assert found["batch"] < 1e-5


def test_the_encoder_tells_nothing_of_the_machine_that_made_it() -> None:
    encoder = (DEFAULT / "encoder.onnx").read_bytes()
    for trace in (b"site-packages", b"/home", b"/tmp", b"/usr", b"stack_trace", b".py", b"torch"):
        assert trace not in encoder, trace


def test_columns_stand_in_rank_order() -> None:
    columns = open_bundle().manifest.columns
    assert list(columns.expected_activation) == sorted(columns.expected_activation, reverse=True)
    assert sorted(columns.original) == list(range(1280))
    assert min(columns.frequency) > 0.05


def test_the_golden_vector_is_answered() -> None:
    bundle = open_bundle()
    assert check(Session(bundle.encoder), bundle.manifest) > 0.9999


def test_another_view_of_a_photo_is_nearer_than_another_photo(real_photos: list[Image.Image]) -> None:
    bundle = open_bundle()
    view, session = bundle.manifest.view, Session(bundle.encoder)
    flipped = [photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for photo in real_photos]
    pixels = np.stack([view.apply(photo) for photo in (*real_photos, *flipped)])
    z = session.run(pixels)
    assert z.min() == 0
    assert 0.1 < (z > 0).mean() < 0.5
    first, second = np.split(unit(z), 2)
    assert (np.argmax(first @ second.T, axis=1) == np.arange(len(real_photos))).all()


def test_a_recipe_whose_golden_vector_is_another_models_builds_nothing(tmp_path: Path) -> None:
    recipe = default.read_recipe()
    wrong = recipe.manifest.golden.model_copy(update={"indices": recipe.manifest.golden.indices[::-1]})
    broken = recipe.model_copy(update={"manifest": recipe.manifest.model_copy(update={"golden": wrong})})
    with pytest.raises(CheckFailed, match="fails its self-test: cosine"):
        default.build(broken, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_recipe_is_named(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(json.dumps({"centre": [1]}))
    with pytest.raises(DataInvalid, match=r"recipe\.json is no recipe"):
        default.read_recipe(tmp_path / "recipe.json")


@pytest.mark.slow
def test_the_command_measures_a_new_recipe_and_builds_from_it(labelled: Path, tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.json", tmp_path / "bundle"
    arguments = ["--calibrate", str(labelled), "--recipe", str(recipe), "--data", "test photos", "--out", str(out)]
    result = CliRunner().invoke(build_default, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    manifest = open_bundle(out).manifest
    assert (manifest.calibration.images, manifest.calibration.data) == (60, "test photos")
    assert manifest.fingerprint != open_bundle().manifest.fingerprint


def test_a_large_photo_is_seen_as_the_server_sees_it(tmp_path: Path) -> None:
    import skimage.data

    from nonneg_server import Encoder

    photo = tmp_path / "retina.jpg"  # 1411 x 1411: decoded at a smaller scale
    photo.write_bytes((Path(skimage.data.__file__).parent / "retina.jpg").read_bytes())
    bundle = open_bundle()
    ours = Session(bundle.encoder).run(see(photo, bundle.manifest.view)[0][None])
    with Encoder() as encoder:
        served = encoder.embed([photo], normalize=False).numpy()
    np.testing.assert_allclose(served, ours, rtol=1e-5, atol=1e-6)
