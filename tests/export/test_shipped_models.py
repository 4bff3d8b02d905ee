"""The models that come with nonneg: whole, small, rebuilt to the byte, sparse, ordered, named and told apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nonneg_client.commands.embedder_options import SHIPPED_BUNDLES
from nonneg_core.errors import DigestMismatch
from nonneg_core.shortening import unit
from nonneg_export.calibrate.photo_folder import load_pixels
from nonneg_runtime.bundle.bundle_folder import DEFAULT, SHIPPED, Bundle, open_bundle, shipped_names
from nonneg_runtime.bundle.head_file import HEAD, read_head, read_spread
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import check_golden
from nonneg_runtime.inference.variants import as_variant, open_variant
from nonneg_runtime.words.names import read_names

pytestmark = pytest.mark.slow
NAMES = ("photo", "photo-fast")
TRAINED, NAMED, DIMENSIONS = 192, 800, 2048


@pytest.fixture(scope="module", params=NAMES)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return open_bundle(str(request.param))


def test_the_default_one_is_photo() -> None:
    assert shipped_names() == NAMES == SHIPPED_BUNDLES[1:]
    assert open_bundle().path == open_bundle("default").path == DEFAULT == SHIPPED / "photo"


def test_a_folder_of_a_shipped_models_name_goes_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SHIPPED / "photo-fast", tmp_path / "photo")
    monkeypatch.chdir(tmp_path)
    assert open_bundle("photo").manifest.name == "photo-fast"
    assert open_bundle("photo-fast").path == SHIPPED / "photo-fast"


def test_nothing_tells_of_the_machine_that_made_it(bundle: Bundle) -> None:
    for path in bundle.path.iterdir():
        content = path.read_bytes()
        for trace in (b"site-packages", b"/home", b"/tmp", b"/usr", b"/work", b"stack_trace", b".py:"):
            assert trace not in content, (path.name, trace)


def test_columns_stand_in_the_order_they_were_fitted_in_and_live(bundle: Bundle) -> None:
    columns = bundle.manifest.columns
    assert columns.original == tuple(range(DIMENSIONS))
    assert bundle.manifest.calibration.ranked_by == "nested"
    assert np.mean(np.array(columns.frequency) > 0) >= 0.99
    assert 0.45 < np.mean(columns.frequency) < 0.55


def test_pairs_of_columns_exclude_each_other_on_every_photo(bundle: Bundle) -> None:
    head = read_head(bundle.path / HEAD)
    assert bundle.manifest.head is not None
    assert bundle.manifest.head.trained == TRAINED
    weight = head.weight / np.linalg.norm(head.weight, axis=0)
    opposite = (weight.T @ weight).argmin(axis=0)
    pairs = np.array([j for j in range(DIMENSIONS) if (head.weight[:, j] == -head.weight[:, opposite[j]]).all()])
    assert len(pairs) == DIMENSIONS - TRAINED - NAMED
    np.testing.assert_allclose(head.bias[pairs], -head.bias[opposite[pairs]], atol=1e-3)


def test_three_hundred_names_stand_within_512_and_expected_activation_falls_behind_them(bundle: Bundle) -> None:
    names = read_names(bundle.path / "names.json", DIMENSIONS).names
    places = [name.dimension for name in names if name.source == "direction"]
    assert [place for place in places if place < 512] == list(range(TRAINED, 512))
    expected = bundle.manifest.columns.expected_activation
    assert (np.diff(expected[512:]) <= 1e-4).all()
    assert (np.diff(expected[TRAINED:512]) <= 1e-4).all()


def test_every_named_dimension_has_its_evidence(bundle: Bundle) -> None:
    every = read_names(bundle.path / "names.json", DIMENSIONS)
    names = [name for name in every.names if name.source == "direction"]
    assert len({name.klass for name in names}) == NAMED
    checked = [name.precision for name in names if name.precision is not None]
    assert len(checked) >= 125
    assert np.mean(np.array(checked) >= 0.6) >= (0.95 if bundle.path == DEFAULT else 0.93)
    others = [name.rank for name in names if name.precision is None]
    assert None not in others
    assert np.mean(np.array(others) == 1) >= (0.85 if bundle.path == DEFAULT else 0.84)
    assert sum(name.common != "" for name in names) > 400
    assert {name.name: name.common for name in names}["beagle"] == "dog"


def test_other_columns_are_named_by_captions_or_said_to_have_no_name(bundle: Bundle) -> None:
    held = read_names(bundle.path / "names.json", DIMENSIONS)
    observed = [name for name in held.names if name.source == "captions"]
    assert min(name.precision or 0 for name in observed) >= 0.6
    assert None not in [name.level for name in observed]
    assert len({name.name.casefold() for name in held.names}) == len(held.names)
    assert bundle.manifest.names is not None
    assert bundle.manifest.names.first_512 == sum(name.dimension < 512 for name in held.names) >= 310
    assert f"{DIMENSIONS - NAMED - len(observed)} of {DIMENSIONS - NAMED}" in held.unnamed
    assert (bundle.path / "names.json").stat().st_size < 2**20


def test_the_statistics_are_those_the_head_was_computed_from(bundle: Bundle) -> None:
    of, head = read_spread(bundle.path / "spread.safetensors"), read_head(bundle.path / HEAD)
    tail = head.weight[:, TRAINED:].astype(np.float64)
    mean = of.mean @ tail + head.bias[TRAINED:]
    variance = np.einsum("if,ij,jf->f", tail, of.covariance, tail, optimize=True)
    np.testing.assert_allclose(mean, 0, atol=0.02)  # (x - mean) . column
    assert 0.3 < np.sqrt(variance.mean()) < 3


def test_both_forms_answer_their_golden_vectors(bundle: Bundle) -> None:
    assert check_golden(Session(bundle.encoder), bundle.manifest) > 0.9999
    (variant,) = bundle.manifest.variants
    form = as_variant(bundle, variant)
    assert check_golden(open_session(form.encoder, precision="int8"), form.manifest) >= form.manifest.golden.tolerance
    assert form.manifest.fingerprint == bundle.manifest.fingerprint


def test_another_view_of_a_photo_is_nearer_than_another_photo(bundle: Bundle, real_photos: list[Image.Image]) -> None:
    flipped = [photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for photo in real_photos]
    pixels = np.stack([bundle.manifest.view.apply(photo) for photo in (*real_photos, *flipped)])
    for precision in ("fp32", "int8"):
        z = open_session(open_variant(bundle.path, precision).encoder).run(pixels)
        assert z.min() == 0
        assert 0.4 < (z > 0).mean() < 0.65
        first, second = np.split(unit(z[:, :64]), 2)
        assert (np.argmax(first @ second.T, axis=1) == np.arange(len(real_photos))).all()


@pytest.mark.parametrize("level", [0, 127, 255])
def test_a_picture_of_one_grey_has_a_vector_at_every_length(bundle: Bundle, level: int) -> None:
    size = bundle.manifest.view.size
    grey = np.full((1, size, size, 3), level, dtype=np.uint8)
    for form in (bundle, as_variant(bundle, bundle.manifest.variants[0])):
        z = open_session(form.encoder).run(grey)[0]
        assert all(z[:k].any() for k in (64, 128, 512, DIMENSIONS))


def test_a_head_of_another_model_is_refused(tmp_path: Path) -> None:
    for name in NAMES:
        shutil.copytree(SHIPPED / name, tmp_path / name)
    shutil.copyfile(tmp_path / "photo-fast" / HEAD, tmp_path / "photo" / HEAD)
    with pytest.raises(DigestMismatch, match=r"head\.safetensors is not the file that was exported"):
        open_bundle(tmp_path / "photo")


def test_a_large_photo_is_seen_as_the_server_sees_it(tmp_path: Path) -> None:
    import skimage.data

    from nonneg_client.local import Encoder

    photo = tmp_path / "retina.jpg"  # 1411 x 1411: decoded at a smaller scale
    photo.write_bytes((Path(skimage.data.__file__).parent / "retina.jpg").read_bytes())
    bundle = open_bundle()
    ours = Session(bundle.encoder).run(load_pixels(photo, bundle.manifest.view)[0][None])
    with Encoder(precision="fp32") as encoder:
        served = encoder.embed([photo], normalize=False).numpy()
    np.testing.assert_allclose(served, ours, rtol=1e-5, atol=1e-6)
