"""nonneg evaluate --structure, as it is typed: a run, signed or not, an ONNX file, an array of vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import nonneg_training
from nonneg_cli.table import nonneg
from nonneg_core.errors import BundleInvalid, ConfigInvalid, DataInvalid, ParameterInvalid
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_training.data import open_data
from nonneg_training.loop.training_run import train
from nonneg_training.measure.target_to_measure import open_target
from nonneg_training.setup.run_settings import Onnx, read_settings
from nonneg_vectors.evaluation.structure_report import differences
from nonneg_vectors.evaluation.uncertainty import GROUPS, STUDENT, groups_of

pytestmark = pytest.mark.slow


def measured(*arguments: str | Path) -> dict[str, Any]:
    given = ["evaluate", "--structure", *map(str, arguments), "--json"]
    answer = CliRunner().invoke(nonneg, given, catch_exceptions=False)
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "cl"
    train(read_settings(None, {"method": "cl", "loop.epochs": 2, "model.dimensions": 32}), run)
    return run


def test_a_run_of_signed_vectors_is_measured_as_it_is(signed: Path) -> None:
    found = measured(signed, "--lengths", "8", "--selections", "activation,random,pca")
    figures = found["structure"]["measured"]
    assert (figures["dimensions"], figures["nnz"], found["structure"]["images"]) == (32, 32.0, 359)
    largest = np.bincount(open_data("digits", split="test").labels).max() / 359
    assert figures["consistency"] == pytest.approx(largest), "dense vectors say nothing by being active"
    assert found["structure"]["rotated"]["nnz"] == 32.0
    assert [(row["selection"], row["dimensions"]) for row in found["embedding"]] == [
        ("all", 32), ("activation", 8), ("random", 8), ("pca", 8),
    ]  # fmt: skip
    assert found["backbone"][0]["dimensions"] == 64
    assert found["backbone"][0]["probe"] > 0.5


def test_a_non_negative_run_stands_above_the_floor_of_shuffled_labels(trained: Path) -> None:
    found = measured(trained)["structure"]
    assert found["measured"]["consistency"] > found["shuffled"]["consistency"]
    assert found["measured"]["sparsity"] == pytest.approx(found["rotated"]["sparsity"], abs=0.02)
    assert found["measured"]["sparsity"] == pytest.approx(found["untrained"]["sparsity"], abs=0.02)
    assert set(found["measured"]["sepin"]) == {"1", "10", "all"}
    assert set(found["measured"]["sepin_intervals"]) == {"1", "10", "all"}
    assert "negatives" in found["estimator"]


def test_named_data_say_which_images_are_asked_and_which_teach(trained: Path) -> None:
    found = measured(trained, "--data", "digits:test", "--teach", "digits:train", "--limit", "200")
    assert found["structure"]["images"] == 200
    assert found["embedding"][0]["probe"] > 0.5


def test_an_array_is_measured_by_its_labels_and_in_python_to_the_same_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(80, 12)).astype(np.float32), np.arange(80) % 4
    z[:, 0] += 3 * (y == 1)
    np.savez(tmp_path / "z.npz", z=z, labels=y)
    np.save(tmp_path / "z.npy", z)
    (tmp_path / "labels.txt").write_text("\n".join(map(str, y)))
    found = measured(tmp_path / "z.npz")
    assert found["structure"] == measured(tmp_path / "z.npy", "--labels", tmp_path / "labels.txt")["structure"]
    assert found["structure"]["measured"]["sepin"] is None
    assert nonneg_training.structure(z, y).record() == found["structure"]


def test_the_seed_draws_the_floors_and_nothing_that_was_measured(trained: Path) -> None:
    one, other = (measured(trained, "--limit", "80", "--seed", seed)["structure"] for seed in ("0", "1"))
    assert one["measured"] == other["measured"]
    for floor in ("shuffled", "rotated", "untrained"):
        assert one[floor]["consistency"] != other[floor]["consistency"], floor


NUMBERS, NAMES = np.ones((6, 3), np.float32), np.arange(6) % 2


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04 and nothing behind it", "cannot be read"),
        ({"z": NUMBERS.astype(str), "labels": NAMES}, r"z is <U\d+ of shape \(6, 3\)"),
        ({"z": np.float32(1), "labels": NAMES}, r"z is float32 of shape \(\)"),
        ({"z": NUMBERS[:, 0], "labels": NAMES}, r"z is float32 of shape \(6,\)"),
        ({"z": NUMBERS[:, :0], "labels": NAMES}, r"z is float32 of shape \(6, 0\)"),
        ({"z": NUMBERS, "labels": np.eye(6)}, r"labels of shape \(6, 6\) for 6 vectors"),
        ({"z": NUMBERS, "labels": NAMES[:5]}, r"labels of shape \(5,\) for 6 vectors"),
        ({"z": NUMBERS[:3], "labels": NAMES[:3]}, "holds 3 vectors: give at least 4"),
        ({"z": NUMBERS * np.nan, "labels": NAMES}, "z holds values that are not finite numbers"),
        (
            {"z": NUMBERS, "labels": NAMES, "second": NUMBERS * np.inf},
            "second holds values that are not finite numbers",
        ),
        ({"z": NUMBERS, "labels": NAMES, "second": NUMBERS[:, 0]}, r"second is float32 of shape \(6,\)"),
        ({"z": NUMBERS, "labels": NAMES, "second": NUMBERS[:, :2]}, r"second views of shape \(6, 2\) for vectors"),
    ],
)
def test_an_array_without_vectors_or_labels_is_refused(
    tmp_path: Path, held: bytes | dict[str, Any], message: str
) -> None:
    path = tmp_path / "z.npz"
    path.write_bytes(held) if isinstance(held, bytes) else np.savez(path, **held)
    with pytest.raises(DataInvalid, match=message):
        measured(path)


@pytest.mark.parametrize("suffix", [".npy", ".txt"])
def test_labels_that_cannot_be_read_are_refused(tmp_path: Path, suffix: str) -> None:
    np.save(tmp_path / "z.npy", NUMBERS)
    (tmp_path / f"labels{suffix}").write_bytes(b"" if suffix == ".npy" else b"\xff")
    with pytest.raises(DataInvalid, match=r"give \.npy, or text"):
        measured(tmp_path / "z.npy", "--labels", tmp_path / f"labels{suffix}")


def test_people_get_a_table(trained: Path) -> None:
    said = CliRunner().invoke(nonneg, ["evaluate", "--structure", str(trained)], catch_exceptions=False).output
    for words in (
        "a run of ncl, relu; 359 images of 10 classes",
        "SEPIN@10",
        "rotated",
        "untrained",
        "judged by labels",
    ):
        assert words in said
    assert "--structure" in CliRunner().invoke(nonneg, ["evaluate", "--help"]).output
    assert "signed or not" in CliRunner().invoke(nonneg, ["evaluate", "--structure", "--help"]).output


def test_a_model_that_comes_with_nonneg_has_a_name() -> None:
    assert open_target(Path("photo-fast")).what == "photo-fast: photo-fast 1"


def test_load_encoder_takes_a_path_or_a_string(trained: Path) -> None:
    encoder = nonneg_training.load_encoder(str(trained))
    assert encoder.dimensions == nonneg_training.load_encoder(trained).dimensions == 32
    with pytest.raises(AttributeError, match="has no attribute 'load_decoder'"):
        _ = nonneg_training.load_decoder


def test_two_encoders_stand_side_by_side_with_the_interval_of_their_difference(signed: Path, trained: Path) -> None:
    found = measured(signed, trained, "--limit", "200")
    first, second = (each["structure"]["measured"] for each in found["encoders"])
    for name, more in found["differences"].items():
        assert more["mean"] == pytest.approx(second[name] - first[name], abs=1e-6)
        assert more["low"] <= more["mean"] <= more["high"]
    assert found["differences"]["sparsity"]["low"] > 0, "a ReLU's vectors are sparser, surely"
    said = CliRunner().invoke(nonneg, ["evaluate", "--structure", str(signed), str(trained), "--limit", "200"]).output
    assert f"{trained} beside {signed}, on the same images" in said


def test_the_interval_of_a_difference_is_that_of_leaving_out_groups_of_images() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    first = np.maximum(rng.normal(size=(120, 5)), 0).astype(np.float32)
    second = np.maximum(rng.normal(size=(120, 5)) + np.eye(3, 5)[labels], 0).astype(np.float32)
    groups = groups_of(labels)
    one_by_one = [
        nonneg_training.structure(second[groups != g], labels[groups != g]).measured.consistency
        - nonneg_training.structure(first[groups != g], labels[groups != g]).measured.consistency
        for g in range(GROUPS)
    ]
    error = np.sqrt((GROUPS - 1) / GROUPS * ((one_by_one - np.mean(one_by_one)) ** 2).sum())
    more = differences(first, second, labels)["consistency"]
    assert more.high - more.low == pytest.approx(2 * STUDENT * error, rel=1e-4)
    same = differences(first, first, labels)
    assert {(each.low, each.mean, each.high) for each in same.values()} == {(0.0, 0.0, 0.0)}


def test_different_images_and_three_encoders_are_refused(trained: Path, tmp_path: Path) -> None:
    for name, count in (("a", 40), ("b", 39)):
        np.savez(tmp_path / f"{name}.npz", z=np.eye(count, dtype=np.float32), labels=np.arange(count) % 2)
    with pytest.raises(ConfigInvalid, match=r"shown different images \(40 and 39\): say which with --data"):
        measured(tmp_path / "a.npz", tmp_path / "b.npz")
    with pytest.raises(ConfigInvalid, match="3 encoders: give one, or two"):
        measured(trained, trained, trained)


@pytest.mark.parametrize("side", [8, "side"])
def test_an_onnx_file_that_takes_floats_is_shown_them_scaled(tmp_path: Path, side: int | str) -> None:
    x = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, side, side])
    y = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 3])
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    path = tmp_path / "x.onnx"
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    how = Onnx(mean=(0.5, 0.4, 0.3), std=(0.2, 0.1, 0.5))
    target = open_target(path, onnx=how, size=None if side == 8 else 8)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    expected = (pixels.mean((1, 2)) / 255 - np.array(how.mean)) / np.array(how.std)
    np.testing.assert_allclose(target.run(pixels)["z"], expected, atol=1e-5)
    found = measured(path, "--data", "digits:test", "--limit", "20", "--mean", ".5", ".4", ".3", "--size", "8")
    assert "8 px, mean 0.5 0.4 0.3, std 0.229" in found["what"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["nothing"], BundleInvalid, "nothing is neither a folder nor a model"),
        (["{run}", "--selections", "best"], ConfigInvalid, "selection=best is not known"),
        (["{run}", "--lengths", "0"], ConfigInvalid, "--lengths=0 is not a number of dimensions"),
        (["{run}", "--lengths", "8,-2"], ConfigInvalid, "--lengths=-2 is not a number"),
        (["{run}", "--limit", "20", "--lengths", "33"], ParameterInvalid, "dimensions=33 exceeds this model's 32"),
        (["z.npy", "--limit", "20"], ConfigInvalid, "--limit belongs to images, and z.npy holds vectors"),
        (["z.npy", "--root", "x"], ConfigInvalid, "--root belongs to images"),
        (["{run}", "--labels", "x.txt"], ConfigInvalid, "belongs to an array"),
        (["{run}", "--data", "digits:val"], ConfigInvalid, "digits has no images called val"),
        (["{run}", "--data", "cifar10:test"], ConfigInvalid, "set NONNEG_DATA"),
        (["z.npy", "--data", "digits"], ConfigInvalid, "brings its own labels"),
        (["z.npy"], DataInvalid, "cannot be read"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    trained: Path, arguments: list[str], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NONNEG_DATA", raising=False)
    with pytest.raises(error, match=message):
        measured(*(argument.format(run=trained) for argument in arguments))


@pytest.mark.nightly
def test_a_bundle_and_its_onnx_file_are_measured_alike() -> None:
    bundle = open_bundle()
    shown = ["--data", "digits:test", "--limit", "40"]
    whole, alone = measured(bundle.path, *shown), measured(bundle.encoder, *shown)
    assert whole["structure"]["measured"]["dimensions"] == bundle.manifest.dimensions
    assert whole["structure"]["untrained"] is None, "the features behind the head cannot be seen"
    assert whole["backbone"] == []
    figures = [found["structure"]["measured"]["sparsity"] for found in (whole, alone)]
    assert figures[0] == pytest.approx(figures[1], abs=0.01), "but for the view, which the file does not hold"


def test_an_onnx_file_without_pixels_is_refused(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["pixels"], ["embedding"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "x.onnx")
    with pytest.raises(DataInvalid, match="has 2 axes, an image has 4"):
        measured(tmp_path / "x.onnx", "--data", "digits")
