from __future__ import annotations

from pathlib import Path

from nonneg_export.bundle import open_bundle
from nonneg_export.triton import config, write_repository


def test_a_repository_has_the_models_name_its_config_and_version_one(tmp_path: Path) -> None:
    bundle = open_bundle()
    folder = write_repository(bundle, tmp_path / "models")
    assert folder == tmp_path / "models" / bundle.manifest.name
    assert (folder / "1" / "model.onnx").read_bytes() == bundle.encoder.read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["1", "config.pbtxt"]


def test_writing_again_adds_a_version(tmp_path: Path) -> None:
    for _ in range(2):
        folder = write_repository(open_bundle(), tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2", "config.pbtxt"]


def test_the_config_says_what_the_encoder_takes_and_gives() -> None:
    text = config(open_bundle().manifest)
    assert 'platform: "onnxruntime_onnx"' in text
    assert 'input { name: "pixels" data_type: TYPE_UINT8 dims: [ 224, 224, 3 ] }' in text
    assert 'output { name: "embedding" data_type: TYPE_FP32 dims: [ 1280 ] }' in text
    assert open_bundle().manifest.fingerprint in text
