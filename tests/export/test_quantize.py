from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from nonneg_core.errors import CheckFailed, ConfigInvalid, DataInvalid
from nonneg_core.shortening import unit
from nonneg_export.assembly.text_towers import carried_sentences
from nonneg_export.checks.agreement import agreement
from nonneg_export.commands.bundle_from_bundle import quantize
from nonneg_export.graphs.canonical import restore_fp32, save, store_fp16
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle, open_bundle, write_bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import check_golden as check
from nonneg_runtime.inference.text_tower import HEAD_OF_SENTENCES, MAP
from nonneg_runtime.words.text_vector import vector_of
from nonneg_training.onnx_backbone.onnx_graph import load_graph

pytestmark = pytest.mark.slow


def command(photos: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(quantize, ["--images", str(photos), "--out", str(out), *options])


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The default model with its weights written out as float32."""
    place, old = tmp_path_factory.mktemp("wide"), open_bundle()
    save(restore_fp32(load_graph(old.encoder)), place / ENCODER)
    manifest = old.manifest.model_copy(
        update={"precision": "fp32", "checks": (), "head": None, "variants": (), "names": None, "lexicon": None}
        | {"sentences": carried_sentences(old, place)}
    )
    files = {name: place / name for name in (ENCODER, MAP, HEAD_OF_SENTENCES)}
    return write_bundle(place / "bundle", manifest, files)


@pytest.fixture(scope="module", params=["int8", "fp16"])
def small(
    request: pytest.FixtureRequest, wide: Bundle, labelled: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bundle:
    out = tmp_path_factory.mktemp("small") / request.param
    result = command(labelled, out, str(wide.path), "--to", request.param)
    assert result.exit_code == 0, result.output
    return open_bundle(out)


def test_the_smaller_encoder_is_smaller_and_alike(small: Bundle, wide: Bundle) -> None:
    old = wide
    assert small.manifest.derived_from == old.manifest.fingerprint != small.manifest.fingerprint
    share = small.encoder.stat().st_size / old.encoder.stat().st_size
    assert share < {"int8": 0.55, "fp16": 0.53}[small.manifest.precision]
    kept = {check.name: 1 - check.value for check in small.manifest.checks}
    assert kept["neighbours"] > {"int8": 0.6, "fp16": 0.95}[small.manifest.precision]
    assert kept["cosine"] > {"int8": 0.9, "fp16": 0.998}[small.manifest.precision]
    assert kept["batch"] > 0.99999


def test_it_has_the_sentences_of_the_source(small: Bundle) -> None:
    text = "a dog runs on the beach"
    np.testing.assert_allclose(vector_of(small, text), vector_of(open_bundle(), text), atol=1e-6)


def test_its_golden_vector_is_its_own(small: Bundle) -> None:
    assert check(Session(small.encoder), small.manifest) > 0.999


def test_its_vectors_are_non_negative_and_sparse(small: Bundle) -> None:
    z = Session(small.encoder).run(np.random.default_rng(0).integers(0, 256, (2, 260, 260, 3), dtype=np.uint8))
    assert z.min() == 0
    assert (z > 0).mean() < 0.6


def test_weights_stored_as_float16_are_the_same_numbers_when_written_out_again(tmp_path: Path) -> None:
    bundle = open_bundle()
    encoder = load_graph(bundle.encoder)
    save(store_fp16(restore_fp32(encoder)), tmp_path / ENCODER)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 260, 260, 3), dtype=np.uint8)
    np.testing.assert_array_equal(Session(tmp_path / ENCODER).run(pixels), Session(bundle.encoder).run(pixels))


def test_a_form_that_the_bundle_holds_itself_is_not_made_beside_it(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    refused = CliRunner().invoke(quantize, ["photo", "--to", "int8", "--images", str(labelled)]).exception
    assert isinstance(refused, ConfigInvalid)
    assert "would never be used" in str(refused)
    assert not any(tmp_path.iterdir())


@pytest.mark.nightly
def test_what_costs_too_much_is_not_written(labelled: Path, tmp_path: Path) -> None:
    result = command(labelled, tmp_path / "b", "--min-quality", "1")
    assert isinstance(result.exception, CheckFailed)
    assert "are kept" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_small_bundle_is_not_made_smaller(small: Bundle, labelled: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        quantize,
        [str(small.path), "--to", small.manifest.precision, "--images", str(labelled), "--out", str(tmp_path / "b")],
    )
    assert isinstance(result.exception, ConfigInvalid)


def test_too_few_photos_are_refused(labelled: Path, tmp_path: Path) -> None:
    result = command(labelled, tmp_path / "b", "--limit", "3")
    assert isinstance(result.exception, DataInvalid)


def test_likeness_counts_kept_neighbours_like_a_slow_second_version() -> None:
    rng = np.random.default_rng(0)
    a = np.maximum(rng.normal(size=(40, 12)), 0)
    b = np.maximum(a + rng.normal(size=a.shape, scale=0.3), 0)
    b[0] = a[0] = 0
    found = agreement(a, b)

    def nearest(z: np.ndarray, i: int) -> set[int]:
        scores = unit(z) @ unit(z)[i]
        return set(sorted((j for j in range(40) if j != i), key=lambda j: (-scores[j], j))[:10])

    expected = [len(nearest(a, i) & nearest(b, i)) / 10 for i in range(40)]
    assert found.neighbours_kept == pytest.approx(np.mean(expected))
    cosines = [1.0, *(float(unit(a)[i] @ unit(b)[i]) for i in range(1, 40))]
    assert (found.mean_cosine, found.least_cosine) == pytest.approx((np.mean(cosines), min(cosines)), abs=1e-6)
