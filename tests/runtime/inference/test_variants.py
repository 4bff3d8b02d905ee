"""A bundle's other forms: found in it, of one space, taken by themselves only where they are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from nonneg_core.errors import BundleInvalid
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, open_bundle, write_bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.inference.variants import open_variant, place_of


@pytest.fixture(scope="module")
def shipped() -> Bundle:
    return open_bundle("photo-fast")


def test_auto_takes_the_form_that_answers_its_self_test(shipped: Bundle) -> None:
    form = open_variant("photo-fast", "auto")
    assert (form.manifest.precision, form.encoder.name) == ("int8", "encoder.int8.onnx")
    assert form.manifest.fingerprint == shipped.manifest.fingerprint


def test_auto_passes_over_a_form_that_this_processor_computes_otherwise(shipped: Bundle, tmp_path: Path) -> None:
    wrong = shipped.manifest.variants[0].model_copy(update={"golden": shipped.manifest.golden})
    turned = wrong.golden.model_copy(update={"values": wrong.golden.values[::-1]})
    manifest = shipped.manifest.model_copy(update={"variants": (wrong.model_copy(update={"golden": turned}),)})
    other = write_bundle(tmp_path / "other", manifest, {name: shipped.path / name for name in manifest.files})
    form = open_variant(other.path, "auto")
    assert (form.manifest.precision, form.file) == ("fp16", "encoder.onnx")
    assert open_variant(other.path, "int8").manifest.precision == "int8"  # asked for by name: the server tests it


def test_a_bundle_without_forms_is_taken_as_it_is(shipped: Bundle, tmp_path: Path) -> None:
    manifest = shipped.manifest.model_copy(update={"variants": ()})
    files = {name: shipped.path / name for name in manifest.files if "int8" not in name}
    plain = write_bundle(tmp_path / "plain", manifest, files)
    assert open_variant(plain.path, "auto").manifest.precision == "fp16"
    with pytest.raises(BundleInvalid, match="no int8 variant"):
        open_variant(plain.path, "int8")


def test_a_form_does_not_change_the_space_and_a_head_does(shipped: Bundle, tmp_path: Path) -> None:
    manifest = shipped.manifest.model_copy(update={"variants": ()})
    files = {name: shipped.path / name for name in manifest.files}
    without = {name: path for name, path in files.items() if "int8" not in name}
    assert write_bundle(tmp_path / "a", manifest, without).manifest.fingerprint == shipped.manifest.fingerprint
    (tmp_path / "head").write_bytes(files["head.safetensors"].read_bytes()[:-4] + b"\0\0\0\0")
    other = write_bundle(tmp_path / "b", manifest, {**without, "head.safetensors": tmp_path / "head"})
    assert other.manifest.fingerprint != shipped.manifest.fingerprint


@pytest.mark.parametrize("lost", ["encoder.int8.onnx", "head.safetensors", "spread.safetensors", "names.json"])
def test_a_file_that_the_manifest_speaks_of_must_be_listed(shipped: Bundle, tmp_path: Path, lost: str) -> None:
    files = {name: shipped.path / name for name in shipped.manifest.files if name != lost}
    with pytest.raises(BundleInvalid, match=lost.replace(".", r"\.")):
        write_bundle(tmp_path / "bundle", shipped.manifest, files)
    assert not (tmp_path / "bundle").exists()


def test_a_manifest_of_before_has_the_digest_it_had(shipped: Bundle) -> None:
    bare = shipped.manifest.model_copy(update={"head": None, "variants": (), "names": None})
    record = bare.record()
    assert not {"head", "variants", "names"} & set(record)
    assert Manifest.model_validate(record).sealed().digest == bare.sealed().digest


def test_a_variant_of_a_shipped_model_is_not_put_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert place_of(SHIPPED / "photo", "bf16") == tmp_path / "nonneg" / "photo.bf16"
    assert place_of(tmp_path / "mine", "int8") == tmp_path / "mine.int8"
