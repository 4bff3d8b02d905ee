from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import ModelProto, helper, numpy_helper

from nonneg_core.errors import CheckFailed, DataInvalid, ParameterInvalid, StorageFailed
from nonneg_core.pixels.view import View, has_simd
from nonneg_core.shortening import unit
from nonneg_export.assembly.calibrate_and_seal import Draft, RankedDraft, rank, seal
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_export.commands.export import export
from nonneg_export.graphs.columns import activate
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import INPUT, OUTPUT
from nonneg_runtime.inference.runner import check_golden as check

pytestmark = pytest.mark.slow
SOURCE = Provenance(weights="random", weights_license="CC0", data="none", data_license="CC0")
VIEW = View(size=16)
NONNEG = str(Path(sys.executable).with_name("nonneg"))


def draft_of(model: ModelProto) -> Draft:
    return Draft(model=model, view=VIEW, name="tiny", version="1", activation="relu", provenance=SOURCE)


@pytest.fixture(scope="module")
def ranked(tiny: ModelProto, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> RankedDraft:
    return rank(draft_of(tiny), find_photos(labelled), tmp_path_factory.mktemp("work"))


def test_columns_are_ranked_by_what_a_slow_second_version_finds(ranked: RankedDraft, tiny: ModelProto) -> None:
    plain = Session(ranked.encoder.with_name("plain.onnx"))
    rows = [plain.run(load_pixels(p, VIEW)[0][None])[0].astype(np.float64) for p in ranked.activations.paths]
    normalised = [row / np.sqrt(sum(x * x for x in row)) if row.any() else row for row in rows]
    for column, original in enumerate(ranked.manifest.columns.original):
        values = [row[original] for row in normalised]
        mean = sum(values) / len(values)
        assert ranked.manifest.columns.expected_activation[column] == pytest.approx(mean, rel=1e-4, abs=1e-9)
        assert ranked.manifest.columns.frequency[column] == pytest.approx(sum(v > 0 for v in values) / 60, rel=1e-5)
        variance = sum((v - mean) ** 2 for v in values) / len(values)
        assert ranked.manifest.columns.variance[column] == pytest.approx(variance, rel=1e-3, abs=1e-9)
    assert list(ranked.manifest.columns.expected_activation) == sorted(
        ranked.manifest.columns.expected_activation, reverse=True
    )


@pytest.mark.parametrize("rule", ["frequency", "variance", "nested"])
def test_other_rules_rank_by_what_they_say(rule: str, tiny: ModelProto, labelled: Path, tmp_path: Path) -> None:
    columns = rank(draft_of(tiny), find_photos(labelled), tmp_path, rule=rule).manifest.columns  # type: ignore[arg-type]
    if rule == "nested":
        assert columns.original == tuple(range(24))
    else:
        values = getattr(columns, rule)
        assert list(values) == sorted(values, reverse=True)


def test_an_export_of_k_dimensions_is_the_prefix_of_the_whole(
    ranked: RankedDraft, tiny: ModelProto, labelled: Path, tmp_path: Path
) -> None:
    short = rank(draft_of(tiny), find_photos(labelled), tmp_path, dimensions=5)
    assert short.manifest.columns.original == ranked.manifest.columns.original[:5]
    pixels = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8)
    np.testing.assert_allclose(
        Session(short.encoder).run(pixels), Session(ranked.encoder).run(pixels)[:, :5], rtol=1e-6, atol=1e-6
    )


def test_more_dimensions_than_there_are_is_refused(tiny: ModelProto, labelled: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterInvalid, match="dimensions=25 exceeds this model's 24"):
        rank(draft_of(tiny), find_photos(labelled), tmp_path, dimensions=25)


def test_the_manifest_records_each_check_with_its_limit(ranked: RankedDraft) -> None:
    assert {check.name for check in ranked.manifest.checks} == {
        "batch",
        "ranking",
        "prefix",
        "view",
        "decode",
        "resize",
    }
    assert all(check.value <= check.limit for check in ranked.manifest.checks)


def test_large_photos_are_decoded_smaller_and_how_alike_that_is_stands_in_the_manifest(
    tiny: ModelProto, labelled: Path, tmp_path: Path
) -> None:
    import skimage.data

    shutil.copytree(labelled, tmp_path / "photos")
    shutil.copy(Path(skimage.data.__file__).parent / "retina.jpg", tmp_path / "photos" / "large.jpg")
    manifest = rank(draft_of(tiny), find_photos(tmp_path / "photos"), tmp_path).manifest
    checks = {c.name: c for c in manifest.checks}
    assert 0 < checks["decode"].value < 0.01
    assert "a sheet of 16" in checks["decode"].what
    assert checks["resize"].value < 0.01
    assert "0.999 at worst, 0.9998 at the median" in checks["resize"].what
    assert manifest.calibration.decode == "fast"
    assert manifest.calibration.resize == ("simd" if has_simd() else "pillow")
    assert checks["view"].value == 0  # in full they are the same pixels


def test_a_view_that_is_not_the_one_of_training_leaves_no_bundle(
    tiny: ModelProto, labelled: Path, tmp_path: Path
) -> None:
    draft = replace(draft_of(tiny), evaluation=lambda path: load_pixels(path, View(size=16, crop=0.9), exact=True)[0])
    with pytest.raises(CheckFailed, match="check 'view' failed: photos whose pixels, decoded in full"):
        rank(draft, find_photos(labelled), tmp_path)


def test_a_sealed_export_answers_its_golden_vector(ranked: RankedDraft, tmp_path: Path) -> None:
    bundle = seal(ranked, tmp_path / "bundle")
    assert check(Session(bundle.encoder), open_bundle(bundle.path).manifest) == pytest.approx(1)


def with_tail(model: ModelProto, *tail: object, weights: dict[str, np.ndarray] | None = None) -> ModelProto:
    """`model` with other last nodes: they lead from "z" to the output."""
    copy = ModelProto.FromString(model.SerializeToString())
    del copy.graph.node[-1]
    copy.graph.node.extend(tail)
    copy.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in (weights or {}).items())
    return copy


def test_an_encoder_that_is_not_non_negative_is_refused_unless_a_relu_is_added(
    tiny: ModelProto, labelled: Path, tmp_path: Path
) -> None:
    signed = with_tail(tiny, helper.make_node("Identity", ["z"], [OUTPUT]))
    with pytest.raises(CheckFailed, match="below zero") as caught:
        rank(draft_of(signed), find_photos(labelled), tmp_path / "a")
    assert "--relu" in (caught.value.fix or "")
    assert rank(draft_of(activate(signed)), find_photos(labelled), tmp_path / "b").manifest.dimensions == 24


def test_nan_activations_are_refused(tiny: ModelProto, labelled: Path, tmp_path: Path) -> None:
    roots = with_tail(tiny, helper.make_node("Sqrt", ["z"], [OUTPUT]))
    with pytest.raises(CheckFailed, match="NaN or infinity"):
        rank(draft_of(roots), find_photos(labelled), tmp_path)


def test_an_encoder_that_minds_its_batch_mates_is_refused(tiny: ModelProto, labelled: Path, tmp_path: Path) -> None:
    tail = [
        helper.make_node("ReduceMax", ["z"], ["largest"], keepdims=0),
        helper.make_node("Sub", ["largest", "z"], ["s"]),
        helper.make_node("Relu", ["s"], [OUTPUT]),
    ]
    with pytest.raises(CheckFailed, match="'batch' failed"):
        rank(draft_of(with_tail(tiny, *tail)), find_photos(labelled), tmp_path)


def test_an_encoder_that_answers_otherwise_than_torch_is_refused(
    tiny: ModelProto, labelled: Path, tmp_path: Path
) -> None:
    wrong = replace(draft_of(tiny), reference=lambda pixels: np.ones((len(pixels), 24), np.float32))
    with pytest.raises(CheckFailed, match="'torch' failed"):
        rank(wrong, find_photos(labelled), tmp_path)


def test_broken_images_are_left_out_and_named(tiny: ModelProto, labelled: Path, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(labelled, tmp_path / "photos"))
    (photos / "astronaut" / "00.jpg").write_bytes(b"no image")
    data = (photos / "coffee" / "03.jpg").read_bytes()
    (photos / "coffee" / "03.jpg").write_bytes(data[: len(data) // 2])
    (photos / "coffee" / "empty.jpg").touch()
    (photos / "coffee" / "gone.jpg").symlink_to("nowhere.jpg")
    seen = rank(draft_of(tiny), find_photos(photos), tmp_path / "work").activations
    assert [path.name for path, _ in seen.broken] == ["00.jpg", "03.jpg", "empty.jpg", "gone.jpg"]
    assert len(seen.paths) == len(seen.values) == 58


def test_a_folder_of_nothing_but_broken_images_is_refused(tiny: ModelProto, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for i in range(3):
        (tmp_path / "photos" / f"{i}.jpg").write_bytes(b"broken")
    with pytest.raises(DataInvalid, match="none of the 3 images"):
        rank(draft_of(tiny), find_photos(tmp_path / "photos"), tmp_path / "work")


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.touch()])
def test_a_folder_without_images_is_refused(make: object, tmp_path: Path) -> None:
    make(tmp_path / "photos")  # type: ignore[operator]
    with pytest.raises(DataInvalid, match=r"holds no images|is not a folder"):
        find_photos(tmp_path / "photos")


# -- the command, on a run that was really trained ---------------------------------------------------------------


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "digits"
    done = subprocess.run(
        [NONNEG, "train", "--data", "digits", "--epochs", "1", "--seed", "1", "--out", str(folder)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def nonneg_export(*arguments: str | Path) -> Result:
    return CliRunner().invoke(export, [str(argument) for argument in arguments])


def test_a_trained_run_becomes_a_bundle_that_agrees_with_torch(run: Path, labelled: Path, tmp_path: Path) -> None:
    import torch

    from nonneg_training.loop.training_checkpoint import load_encoder

    result = nonneg_export(
        run, "--calibrate", labelled, "--out", tmp_path / "b", "--license", "MIT", "--work", tmp_path
    )
    assert result.exit_code == 0, result.output
    assert "60 calibration images are few" in result.stderr
    bundle = open_bundle(tmp_path / "b")
    assert {check.name for check in bundle.manifest.checks} == {
        "torch",
        "batch",
        "ranking",
        "prefix",
        "view",
        "decode",
        "resize",
    }
    assert bundle.manifest.provenance.weights_license == "MIT"

    encoder = load_encoder(run)
    assert encoder.view == bundle.manifest.view
    pixels = np.stack([load_pixels(p, encoder.view)[0] for p in sorted(labelled.rglob("*.jpg"))])
    with torch.inference_mode():
        by_torch = encoder(torch.from_numpy(pixels)).numpy()[:, list(bundle.manifest.columns.original)]
    np.testing.assert_allclose(unit(Session(bundle.encoder).run(pixels)), unit(by_torch), atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_the_same_run_and_photos_give_the_same_bundle(run: Path, labelled: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        result = nonneg_export(run, "--calibrate", labelled, "--out", tmp_path / name, "--name", "same")
        assert result.exit_code == 0, result.output
    assert open_bundle(tmp_path / "a").manifest.fingerprint == open_bundle(tmp_path / "b").manifest.fingerprint


def test_what_exists_is_not_overwritten(run: Path, labelled: Path, tmp_path: Path) -> None:
    result = nonneg_export(run, "--calibrate", labelled, "--out", tmp_path)
    assert isinstance(result.exception, StorageFailed)
    assert "exists" in str(result.exception)


def test_a_place_that_cannot_be_written_is_refused_before_the_work(run: Path, labelled: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = nonneg_export(run, "--calibrate", labelled, "--out", tmp_path / "file" / "bundle")
    assert isinstance(result.exception, StorageFailed)


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from nonneg_cli.table import main
from nonneg_export.commands import export
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
main()
"""


@pytest.mark.nightly
def test_a_disk_that_fills_up_leaves_nothing_and_says_so(run: Path, labelled: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, "export", str(run), "--calibrate", str(labelled)]
    where = ["--out", str(tmp_path / "bundle"), "--work", str(tmp_path / "work")]
    done = subprocess.run([*command, *where], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert "Error:" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "work"] == []


def test_an_interrupted_collection_goes_on_where_it_stopped(tiny: ModelProto, labelled: Path, tmp_path: Path) -> None:
    from nonneg_export.calibrate.activations import collect
    from nonneg_export.graphs.canonical import save

    save(tiny, tmp_path / "m.onnx")
    photos = find_photos(labelled)
    whole = collect(tmp_path / "m.onnx", photos, VIEW, tmp_path / "whole")

    class Interrupted(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 23:
            raise Interrupted

    with pytest.raises(Interrupted):
        collect(tmp_path / "m.onnx", photos, VIEW, tmp_path / "rows", tick=stop)
    with (tmp_path / "rows" / "records").open("ab") as file:
        file.write(b"half a row")  # what a killed process may leave
    ticks: list[int] = []
    again = collect(tmp_path / "m.onnx", photos, VIEW, tmp_path / "rows", tick=lambda done, total: ticks.append(done))
    assert ticks == list(range(24, 61))
    np.testing.assert_array_equal(again.values, whole.values)
    assert again.digest == whole.digest


def test_another_view_does_not_reuse_what_was_collected(tiny: ModelProto, labelled: Path, tmp_path: Path) -> None:
    from nonneg_export.calibrate.activations import collect
    from nonneg_export.graphs.canonical import save

    save(tiny, tmp_path / "m.onnx")
    photos = find_photos(labelled)
    first = np.array(collect(tmp_path / "m.onnx", photos, VIEW, tmp_path / "rows").values)
    other = collect(tmp_path / "m.onnx", photos, View(size=16, crop=0.5), tmp_path / "rows").values
    assert np.abs(first - other).max() > 0.01


@pytest.mark.nightly
def test_a_killed_export_can_be_started_again(run: Path, labelled: Path, tmp_path: Path) -> None:
    command = [NONNEG, "export", str(run), "--calibrate", str(labelled), "--out", str(tmp_path / "bundle")]
    process = subprocess.Popen([*command, "--work", str(tmp_path / "work")], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("work/*/activations/records")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    assert not (tmp_path / "bundle").exists()
    done = nonneg_export(*command[2:], "--work", tmp_path / "work")
    assert done.exit_code == 0, done.output
    assert open_bundle(tmp_path / "bundle").manifest.calibration.images == 60
    assert list((tmp_path / "work").iterdir()) == []


def test_the_input_of_every_bundle_has_one_name(ranked: RankedDraft) -> None:
    import onnx

    graph = onnx.load(ranked.encoder).graph
    assert ([value.name for value in graph.input], [value.name for value in graph.output]) == ([INPUT], [OUTPUT])
