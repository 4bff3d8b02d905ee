"""OpenVINO behind the same face as ONNX Runtime; skipped where it is not installed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from nonneg_core.errors import BundleInvalid, ConfigInvalid
from nonneg_core.shortening import unit
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.encoder import open_session, openvino_package
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import PROVIDERS, Runner

if find_spec("openvino") is None:
    pytest.skip("OpenVINO is not installed", allow_module_level=True)
openvino = openvino_package()
BF16 = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


@pytest.fixture(
    scope="module", params=["fp32", pytest.param("bf16", marks=pytest.mark.skipif(not BF16, reason="no bf16"))]
)
def runner(request: pytest.FixtureRequest) -> Runner:
    """The default model, two callers sharing one compiled model."""
    encoder = open_bundle().encoder
    return open_session(encoder, callers=2, providers=PROVIDERS["openvino"], precision=request.param)


@pytest.fixture(scope="module")
def pixels(labelled: Path) -> NDArray[np.uint8]:
    view = open_bundle().manifest.view
    return np.stack([load_pixels(path, view)[0] for path in find_photos(labelled).every(8).paths])


def test_it_answers_what_onnx_runtime_answers(runner: Runner, pixels: NDArray[np.uint8]) -> None:
    ours, theirs = Session(open_bundle().encoder).run(pixels), runner.run(pixels)
    cosines = (unit(ours) * unit(theirs)).sum(axis=1)
    assert cosines.min() > 0.96  # bf16; float32 is closer to 1 than this by far
    assert (theirs >= 0).all()


def test_a_vector_depends_neither_on_its_batch_nor_on_who_else_runs(runner: Runner, pixels: NDArray[np.uint8]) -> None:
    alone = np.concatenate([runner.run(one[None]) for one in pixels])
    np.testing.assert_array_equal(runner.run(pixels), alone)
    with ThreadPoolExecutor(4) as pool:  # more threads than streams: the others wait for their turn
        found = list(pool.map(lambda i: runner.run(pixels[i % len(pixels), None])[0], range(64)))
    for i, row in enumerate(found):
        np.testing.assert_array_equal(row, alone[i % len(pixels)])


def test_rows_stay_as_they_are_when_the_same_thread_runs_again(runner: Runner, pixels: NDArray[np.uint8]) -> None:
    first = runner.run(pixels[:1])
    kept = first.copy()
    runner.run(pixels[1:2])
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(("threads", "callers", "used", "streams"), [(1, 2, 2, 2), (2, 2, 2, 1)])
def test_it_takes_the_threads_it_is_given_and_not_the_hosts(
    threads: int, callers: int, used: int, streams: int
) -> None:
    opened = open_session(open_bundle().encoder, threads=threads, callers=callers, providers=PROVIDERS["openvino"])
    model = opened.compiled  # type: ignore[attr-defined]
    assert model.get_property("INFERENCE_NUM_THREADS") <= used
    assert model.get_property("NUM_STREAMS") == streams
    assert model.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32  # never bf16 unasked


def test_a_file_that_is_not_a_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "encoder.onnx").write_bytes(b"no model")
    with pytest.raises(BundleInvalid, match=r"OpenVINO refuses .*encoder\.onnx"):
        open_session(tmp_path / "encoder.onnx", providers=PROVIDERS["openvino"])


def test_a_processor_without_bf16_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino.Core, "get_property", lambda *_: ["FP32"])
    with pytest.raises(ConfigInvalid, match="bf16 was asked for but this processor has none"):
        open_session(open_bundle().encoder, precision="bf16")
