from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, SparseTensorProto, TensorProto, external_data_helper, helper, numpy_helper

from nonneg_core.errors import BundleInvalid, DigestMismatch, SchemaUnknown, StorageFailed
from nonneg_core.pixels.view import View
from nonneg_export.checks import encoder_checks
from nonneg_export.graphs.canonical import save
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle, open_bundle, write_bundle
from nonneg_runtime.bundle.external_data import ExternalTensor, Malformed, external_files, locations
from nonneg_runtime.bundle.manifest import Calibration, Columns, Manifest, Provenance
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import check_golden

Break = Callable[[Path], None]


def describe(encoder: Path, columns: int) -> Manifest:
    zeros = (0.5,) * columns
    return Manifest(
        name="tiny",
        version="1",
        dimensions=columns,
        activation="relu",
        view=View(size=16),
        provenance=Provenance(weights="random", weights_license="CC0", data="none", data_license="CC0"),
        columns=Columns(original=tuple(range(columns)), expected_activation=zeros, frequency=zeros, variance=zeros),
        calibration=Calibration(images=1, data="none", digest="0"),
        golden=encoder_checks.record(encoder, 16),
        files={},
    )


@pytest.fixture(scope="module")
def sealed(tiny: ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("sealed")
    save(tiny, folder / "m.onnx")
    return write_bundle(folder / "bundle", describe(folder / "m.onnx", 24), {ENCODER: folder / "m.onnx"})


@pytest.fixture
def copy(sealed: Bundle, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed.path, tmp_path / "copy"))


def test_what_was_written_is_what_is_read(sealed: Bundle) -> None:
    again = open_bundle(sealed.path)
    assert again.manifest == sealed.manifest
    assert set(again.manifest.files) == {ENCODER}


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def edit(path: Path, **changes: object) -> None:
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, **changes}))


BREAKS: dict[str, tuple[Break, type[BundleInvalid], str]] = {
    "a byte of the encoder": (lambda f: flip(f / ENCODER, 900), DigestMismatch, "its sha256 differs"),
    "a shorter encoder": (lambda f: os.truncate(f / ENCODER, 500), DigestMismatch, "500 bytes for"),
    "no encoder": (lambda f: (f / ENCODER).unlink(), BundleInvalid, "lacks encoder.onnx"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), BundleInvalid, "is not a bundle: it has no manifest"),
    "another name": (lambda f: edit(f / "manifest.json", name="other"), DigestMismatch, "changed after it was"),
    "another schema": (lambda f: edit(f / "manifest.json", schema_version=2), SchemaUnknown, "schema version 2"),
    "no schema": (lambda f: edit(f / "manifest.json", schema_version=None), SchemaUnknown, "schema version None"),
    "an unknown field": (lambda f: edit(f / "manifest.json", extra=1), BundleInvalid, "extra"),
    "too few columns": (lambda f: edit(f / "manifest.json", dimensions=3), BundleInvalid, "24 entries for 3"),
    "no JSON": (lambda f: (f / "manifest.json").write_text("{"), BundleInvalid, "is not JSON") ,
    "deep JSON": (lambda f: (f / "manifest.json").write_text("[" * 10**5), BundleInvalid, "is not JSON"),
    "a list": (lambda f: (f / "manifest.json").write_text("[]"), BundleInvalid, "no JSON object"),
    "a folder": (lambda f: ((f / ENCODER).unlink(), (f / ENCODER).mkdir()), BundleInvalid, "encoder.onnx"),
    "a pipe": (lambda f: ((f / ENCODER).unlink(), os.mkfifo(f / ENCODER)), BundleInvalid, "encoder.onnx"),
}  # type: ignore[dict-item]  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_bundle_is_refused_by_name_and_with_a_fix(name: str, copy: Path) -> None:
    damage, kind, message = BREAKS[name]
    damage(copy)
    with pytest.raises(kind, match=message) as caught:
        open_bundle(copy)
    assert str(copy) in caught.value.message
    assert caught.value.fix


def test_a_folder_that_is_not_there_is_not_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleInvalid, match="does not exist or is not a folder"):
        open_bundle(tmp_path / "none")


@pytest.mark.parametrize("name", ["hf:facebook/dinov2-small", "timm:resnet50.a1_in1k", "open_clip:ViT-B-32/openai"])
def test_a_model_that_others_publish_is_refused_with_the_command_that_wraps_it(name: str) -> None:
    with pytest.raises(BundleInvalid, match=f"nonneg wrap {name} --calibrate photos/ --out [a-zA-Z0-9.-]+.bundle"):
        open_bundle(name)


def test_a_manifest_larger_than_the_limit_is_not_read(copy: Path) -> None:
    with (copy / "manifest.json").open("r+b") as file:
        file.truncate(65 * 2**20)  # sparse: it takes no space
    with pytest.raises(BundleInvalid, match="larger than"):
        open_bundle(copy)


def resealed(copy: Path, **changes: object) -> None:
    """A bundle whose digests are right, made with bad intent."""
    manifest = Manifest.model_validate(json.loads((copy / "manifest.json").read_text()) | changes).sealed()
    (copy / "manifest.json").write_text(manifest.to_json())


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", "a\\b", "a\0b"])
def test_a_listed_file_cannot_lie_outside_the_folder(name: str, copy: Path) -> None:
    files = json.loads((copy / "manifest.json").read_text())["files"]
    resealed(copy, files={**files, name: files[ENCODER]})
    with pytest.raises(BundleInvalid, match="leaves the bundle's folder"):
        open_bundle(copy)


def test_a_file_that_claims_to_be_huge_is_not_read(copy: Path) -> None:
    resealed(copy, files={ENCODER: {"sha256": "0" * 64, "bytes": 2**40}})
    with pytest.raises(BundleInvalid, match="more than"):
        open_bundle(copy)


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "weights.bin"])
def test_external_data_that_the_manifest_does_not_list_is_refused(
    location: str, tiny: ModelProto, tmp_path: Path
) -> None:
    model = ModelProto.FromString(tiny.SerializeToString())
    out = tmp_path / "bundle"
    save(tiny, tmp_path / "m.onnx")
    write_bundle(out, describe(tmp_path / "m.onnx", 24), {ENCODER: tmp_path / "m.onnx"})
    tensor = next(t for t in model.graph.initializer if t.name == "w")
    external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    save(model, out / ENCODER)
    resealed(out, files={ENCODER: {"sha256": _sha(out / ENCODER), "bytes": (out / ENCODER).stat().st_size}})
    with pytest.raises(BundleInvalid, match="which is not a listed file of the bundle"):
        open_bundle(out)


def test_external_data_inside_the_bundle_is_read(tiny: ModelProto, tmp_path: Path) -> None:
    save(tiny, tmp_path / "plain.onnx")
    manifest = describe(tmp_path / "plain.onnx", 24)
    model = ModelProto.FromString(tiny.SerializeToString())
    onnx.save(model, tmp_path / ENCODER, save_as_external_data=True, location="encoder.data", size_threshold=0)
    files = {ENCODER: tmp_path / ENCODER, "encoder.data": tmp_path / "encoder.data"}
    bundle = write_bundle(tmp_path / "bundle", manifest, files)
    assert external_files(bundle.encoder) == {"encoder.data"}
    assert check_golden(Session(bundle.encoder), bundle.manifest) == pytest.approx(1)


def test_the_walk_finds_external_data_in_every_corner_of_a_model(tmp_path: Path) -> None:
    def outside(location: str) -> TensorProto:
        tensor = numpy_helper.from_array(np.zeros(2, np.float32), location)
        external_data_helper.set_external_data(tensor, location)
        tensor.ClearField("raw_data")
        return tensor

    inner = helper.make_graph([], "inner", [], [], [outside("subgraph")])
    sparse = SparseTensorProto(values=outside("sparse"), dims=[2])
    nodes = [
        helper.make_node("Constant", [], ["a"], value=outside("attribute")),
        helper.make_node("If", ["a"], ["b"], then_branch=inner, else_branch=inner),
        helper.make_node("Other", [], ["c"], sparse_value=sparse, many=[outside("tensors")]),
    ]
    function = helper.make_function(
        "f", "F", [], [], [helper.make_node("Constant", [], ["x"], value=outside("fn"))], []
    )
    graph = helper.make_graph(nodes, "g", [], [], [outside("initializer")])
    save(helper.make_model(graph, functions=[function]), tmp_path / "m.onnx")
    expected = {"subgraph", "sparse", "attribute", "tensors", "fn", "initializer"}
    assert external_files(tmp_path / "m.onnx") == expected


def test_bytes_that_are_no_model_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for data in (b"", b"\xff" * 40, b"\x3a\xff\xff\xff\xff\x0f", rng.bytes(4000)):
        (tmp_path / "m.onnx").write_bytes(data)
        try:
            found = external_files(tmp_path / "m.onnx")
        except BundleInvalid:
            continue
        assert found == set(), "random bytes may parse, but name nothing"


def test_a_bundle_is_not_overwritten_unless_asked(sealed: Bundle, copy: Path) -> None:
    files = {ENCODER: sealed.encoder}
    with pytest.raises(StorageFailed, match="exists"):
        write_bundle(copy, sealed.manifest, files)
    newer = sealed.manifest.model_copy(update={"version": "2"})
    assert write_bundle(copy, newer, files, replace=True).manifest.version == "2"
    assert open_bundle(copy).manifest.version == "2"
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


def test_nothing_is_left_of_a_bundle_that_could_not_be_written(sealed: Bundle, tmp_path: Path) -> None:
    with pytest.raises(StorageFailed):
        write_bundle(tmp_path / "new", sealed.manifest, {ENCODER: tmp_path / "missing.onnx"})
    assert list(tmp_path.iterdir()) == []


def test_the_fingerprint_names_the_vectors_and_the_digest_the_whole(sealed: Bundle, tmp_path: Path) -> None:
    files = {ENCODER: sealed.encoder}
    described = write_bundle(tmp_path / "a", sealed.manifest.model_copy(update={"description": "other"}), files)
    assert described.manifest.fingerprint == sealed.manifest.fingerprint
    assert described.manifest.digest != sealed.manifest.digest
    viewed = write_bundle(tmp_path / "b", sealed.manifest.model_copy(update={"view": View(size=16, crop=0.9)}), files)
    assert viewed.manifest.fingerprint != sealed.manifest.fingerprint


def _sha(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_model_that_is_cut_off_while_it_is_looked_through_is_an_error(tiny: ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(tiny.SerializeToString())
    with path.open("rb") as file:
        whole = ExternalTensor(file, 0, path.stat().st_size)
        os.truncate(path, 10)
        with pytest.raises(Malformed):
            list(locations(whole, "model", 0))


def test_a_file_that_is_gone_as_soon_as_it_was_verified_is_an_error(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path) -> set[str]:
        path.unlink()
        return external_files(path)

    monkeypatch.setattr("nonneg_runtime.bundle.bundle_folder.external_files", gone)
    with pytest.raises(BundleInvalid, match="cannot be read"):
        open_bundle(copy)
