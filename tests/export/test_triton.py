from __future__ import annotations

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import text_format

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import View
from nonneg_export.share.bundle_sharing import config, write_repository
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle


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
    assert 'input { name: "pixels" data_type: TYPE_UINT8 dims: [ 260, 260, 3 ] }' in text
    assert 'output { name: "embedding" data_type: TYPE_FP32 dims: [ 2048 ] }' in text
    assert open_bundle().manifest.fingerprint in text


def test_triton_itself_reads_the_config() -> None:
    """By its own protobuf, whatever quotes and new lines a manifest has."""
    manifest = open_bundle().manifest.model_copy(update={"activation": 'relu("x")\n\\ {'})
    found = text_format.Parse(config(manifest), model_config().ModelConfig())
    assert (found.name, found.platform, found.max_batch_size) == (manifest.name, "onnxruntime_onnx", 32)
    assert [(i.name, list(i.dims)) for i in (*found.input, *found.output)] == [
        ("pixels", [260, 260, 3]),
        ("embedding", [2048]),
    ]
    assert found.HasField("dynamic_batching")
    assert found.parameters["activation"].string_value == manifest.activation
    assert View.model_validate_json(found.parameters["view"].string_value) == manifest.view


def model_config() -> ModuleType:
    """tritonclient's protobuf of config.pbtxt; by its file, for its package asks for grpc."""
    spec = find_spec("tritonclient")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0], "grpc", "model_config_pb2.py")
    found = spec_from_file_location("model_config_pb2", path)
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_bf16_bundle_is_refused_for_triton_would_answer_other_vectors(tmp_path: Path) -> None:
    bundle = open_bundle()
    other = Bundle(bundle.path, bundle.manifest.model_copy(update={"precision": "bf16"}))
    with pytest.raises(ConfigInvalid, match="computes no bf16"):
        write_repository(other, tmp_path)
    assert list(tmp_path.iterdir()) == []
