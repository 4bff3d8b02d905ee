"""`nonneg adapt` of a bundle that `nonneg wrap` made of signed features: the head on these is what is adapted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from published_files import KERNEL, SIDE, WIDTH, encoder

from nonneg_core.errors import MissingExtra
from nonneg_core.shortening import unit
from nonneg_export.adapt.backbone import FeatureBackbone, open_source
from nonneg_export.commands.adapt import adapt
from nonneg_export.commands.wrap import wrap
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.bundle.head_file import read_head
from nonneg_runtime.inference.onnx_session import Session

MEAN, STD = np.array((0.485, 0.456, 0.406)), np.array((0.229, 0.224, 0.225))
PIXELS = np.random.default_rng(1).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)


def directions(pixels: np.ndarray) -> np.ndarray:
    """The encoder's features at a length of one, slowly."""
    x = ((pixels / 255 - MEAN) / STD).reshape(-1, 4, 4, 4, 4, 3)  # (n, row, y, column, x, rgb)
    return unit(np.einsum("nrycxk,dkyx->ndrc", x, KERNEL).mean(axis=(2, 3)).astype(np.float32))


def wrapped(photos: Path, place: Path, *words: str) -> Bundle:
    (place / "encoder.onnx").write_bytes(encoder())
    given = [str(place / "encoder.onnx"), "--size", str(SIDE), "--calibrate", str(photos), "--out", str(place / "b")]
    result = CliRunner().invoke(wrap, [*given, *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return open_bundle(place / "b")


def test_the_head_on_signed_features_is_adapted_without_onnx(
    tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = wrapped(tiles, tmp_path)
    assert source.manifest.head is not None
    assert source.manifest.head.takes == "directions"
    monkeypatch.setattr("nonneg_export.adapt.backbone.find_spec", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    rows = FeatureBackbone(open_source(source.path), tmp_path / "work", 1).roots(PIXELS)
    np.testing.assert_allclose(rows, directions(PIXELS), atol=2e-3)
    asked = [str(tiles), "--from", str(source.path), "--out", str(tmp_path / "mine"), "--force"]
    refused = CliRunner().invoke(adapt, [*asked, "--keep-front"]).exception
    assert "--keep-front changes nothing" in str(refused)
    result = CliRunner().invoke(adapt, asked, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    mine = open_bundle(tmp_path / "mine")
    assert mine.manifest.head is not None
    assert (mine.manifest.head.takes, mine.manifest.precision) == ("directions", source.manifest.precision)
    assert "features / |features|" in mine.manifest.activation
    expected = read_head(mine.path / mine.manifest.head.file).embed(directions(PIXELS))
    np.testing.assert_allclose(Session(mine.encoder).run(PIXELS), expected, atol=5e-3)
    assert not np.allclose(Session(source.encoder).run(PIXELS), expected, atol=5e-3)


def test_a_bundle_with_too_few_columns_for_its_features_says_why_it_needs_onnx(
    tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = wrapped(tiles, tmp_path, "--dimensions", str(WIDTH))
    monkeypatch.setattr("nonneg_export.adapt.backbone.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"fewer columns than what its head takes needs.*needs onnx"):
        open_source(source.path)
