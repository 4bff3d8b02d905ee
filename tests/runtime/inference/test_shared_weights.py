"""Sessions that map one copy of their weights answer what a session with a copy of its own answers."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

from nonneg_core.errors import StorageFailed
from nonneg_export.graphs.canonical import save
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session, sessions_sharing_weights


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def encoder(tiny: ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    save(tiny, path)
    return path


def test_twins_answer_the_same_in_every_bit_when_their_file_is_gone(encoder: Path, place: Path) -> None:
    narrow, wide = sessions_sharing_weights(encoder, (1, 2))
    assert list(place.iterdir()) == []
    pixels = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    rows = Session(encoder).run(pixels)
    np.testing.assert_array_equal(narrow.run(pixels), rows)
    np.testing.assert_allclose(wide.run(pixels), rows, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_default_models_weights_are_mapped_once_for_each_and_answer_the_same(place: Path) -> None:
    path = open_bundle().encoder
    pixels = np.random.default_rng(0).integers(0, 256, (1, 260, 260, 3), dtype=np.uint8)
    both = sessions_sharing_weights(path, (1, 1))
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(place) in line]
    assert {line[6] for line in lines} == {"(deleted)"}
    assert len({line[4] for line in lines}) == 1, "one file"
    rows = Session(path).run(pixels)
    for session in both:
        np.testing.assert_array_equal(session.run(pixels), rows)


def test_no_place_for_the_file_is_an_error_of_ours(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StorageFailed):
        sessions_sharing_weights(encoder, (1, 2))
