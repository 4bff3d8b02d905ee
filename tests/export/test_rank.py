from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import ModelProto

from nonneg_core.pixels.view import View
from nonneg_core.shortening import unit
from nonneg_export.assembly.calibrate_and_seal import Draft, rank, seal
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_export.commands.bundle_from_bundle import overlaps
from nonneg_export.commands.bundle_from_bundle import rank as command
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.words.lexicon import lexicon_of
from nonneg_runtime.words.names import read_names
from nonneg_runtime.words.text_vector import vector_of

SOURCE = Provenance(weights="random", weights_license="CC0", data="none", data_license="CC0")


@pytest.fixture(scope="module")
def bundle(tiny: ModelProto, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("old")
    draft = Draft(model=tiny, view=View(size=16), name="tiny", version="1", activation="relu", provenance=SOURCE)
    return seal(rank(draft, find_photos(labelled), folder), folder / "bundle")


@pytest.fixture(scope="module")
def mine(labelled: Path) -> Path:
    """A user's own photos: two subjects only."""
    return labelled / "coffee"


def rerank(bundle: Bundle, photos: Path, out: Path, *options: str) -> tuple[Bundle, str]:
    arguments = [str(bundle.path), "--images", str(photos), "--out", str(out), *options]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return open_bundle(out), result.stdout


def test_a_reranked_bundle_emits_the_old_columns_in_the_new_order(bundle: Bundle, mine: Path, tmp_path: Path) -> None:
    new, _ = rerank(bundle, mine, tmp_path / "new")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    old_place = {original: i for i, original in enumerate(bundle.manifest.columns.original)}
    order = [old_place[original] for original in new.manifest.columns.original]
    assert order != list(range(24))
    np.testing.assert_allclose(
        Session(new.encoder).run(pixels), Session(bundle.encoder).run(pixels)[:, order], rtol=1e-6, atol=1e-6
    )
    activations = new.manifest.columns.expected_activation
    assert list(activations) == sorted(activations, reverse=True)


def test_it_has_the_name_of_its_folder_or_the_one_it_is_given(bundle: Bundle, mine: Path, tmp_path: Path) -> None:
    assert rerank(bundle, mine, tmp_path / "mine.bundle")[0].manifest.name == "mine"
    assert rerank(bundle, mine, tmp_path / "other", "--name", "pets")[0].manifest.name == "pets"


def test_it_is_another_model_that_names_where_it_comes_from(bundle: Bundle, mine: Path, tmp_path: Path) -> None:
    new, said = rerank(bundle, mine, tmp_path / "new")
    assert new.manifest.fingerprint != bundle.manifest.fingerprint
    assert new.manifest.derived_from == bundle.manifest.fingerprint
    assert "old order: 0 1 2 3" in said
    assert "in both" in said


def test_fewer_dimensions_can_be_kept(bundle: Bundle, mine: Path, tmp_path: Path) -> None:
    new, _ = rerank(bundle, mine, tmp_path / "new", "--dimensions", "7", "--rank-by", "variance")
    assert new.manifest.dimensions == 7
    assert new.manifest.calibration.ranked_by == "variance"


@pytest.mark.slow
def test_a_trained_order_is_kept_unless_another_is_asked_for(photos: Path, tmp_path: Path) -> None:
    old = open_bundle("photo-fast")
    new, said = rerank(old, photos, tmp_path / "kept")
    assert new.manifest.columns.original == old.manifest.columns.original
    assert new.manifest.calibration.ranked_by == "nested"
    assert new.manifest.description == old.manifest.description
    assert names_of(new) == names_of(old)
    assert "the order was trained and is kept" in said


@pytest.mark.slow
def test_names_and_words_go_with_their_columns(photos: Path, tmp_path: Path) -> None:
    old = open_bundle("photo-fast")
    new, said = rerank(old, photos, tmp_path / "sorted", "--rank-by", "expected-activation")
    place = {original: i for i, original in enumerate(new.manifest.columns.original)}
    went = [place[original] for original in old.manifest.columns.original]  # where each old column is now
    assert went != sorted(went)
    assert names_of(new) == {went[dimension]: name for dimension, name in names_of(old).items()}
    before, after = lexicon_of(old), lexicon_of(new)
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(after.vector("golden retriever")[went], before.vector("golden retriever"))
    text = "sunset at the beach"
    np.testing.assert_allclose(vector_of(new, text)[went], vector_of(old, text), atol=1e-6)
    assert "short prefixes trained" not in new.manifest.description
    assert new.manifest.provenance.note.endswith("its columns were put in another order since")
    assert "not in the new bundle: the form int8" in said


@pytest.mark.nightly
def test_fewer_columns_keep_their_names_and_lose_the_words(photos: Path, tmp_path: Path) -> None:
    old = open_bundle("photo-fast")
    new, said = rerank(old, photos, tmp_path / "fewer", "--dimensions", "1500")
    assert names_of(new) == {dimension: name for dimension, name in names_of(old).items() if dimension < 1500}
    assert new.manifest.lexicon is None
    assert "not in the new bundle: the columns of known words" in said
    text = "sunset at the beach"
    np.testing.assert_allclose(vector_of(new, text), unit(vector_of(old, text)[:1500]), atol=1e-5)


def names_of(bundle: Bundle) -> dict[int, str]:
    assert bundle.manifest.names is not None
    found = read_names(bundle.path / bundle.manifest.names.file, bundle.manifest.dimensions)
    return {name.dimension: name.name for name in found.names}


def test_ranking_needs_no_torch(bundle: Bundle, mine: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from nonneg_export.commands.bundle_from_bundle import rank; "
        f"rank([{str(bundle.path)!r}, '--images', {str(mine)!r}, '--out', {str(tmp_path / 'new')!r}], "
        "standalone_mode=False); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_overlap_is_the_share_of_the_old_first_k_in_the_new() -> None:
    found = {o.dimensions: o.share for o in overlaps(range(20), [19, *range(19)])}
    assert found == {16: 15 / 16, 8: 7 / 8}
