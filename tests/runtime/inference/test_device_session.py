"""What a GPU is fed with, as far as a CPU shows it: the same bindings and batch sizes, on the CPU's provider."""

from __future__ import annotations

import mmap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto

from nonneg_core.errors import ConfigInvalid
from nonneg_export.graphs.canonical import save
from nonneg_runtime.inference.device_session import Bound, DeviceSession, page_lock, pages, warm_sizes
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.onnx_session import RECORD, Session, kept_engines
from nonneg_runtime.inference.runner import CPU, PROVIDERS, check_provider, nodes_by_provider


@pytest.fixture(scope="module")
def encoder(tiny: ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("device") / "m.onnx"
    save(tiny, path)
    return path


def test_bound_buffers_answer_what_a_plain_run_answers_at_every_batch_size(encoder: Path) -> None:
    bound, plain = DeviceSession(encoder, providers=(CPU,), largest=6), Session(encoder)
    rng = np.random.default_rng(0)
    for count in (1, 5, 2, 6, 3, 1, 13):  # 13 are more than the largest batch: run in pieces
        pixels = rng.integers(0, 256, (count, 16, 16, 3), dtype=np.uint8)
        np.testing.assert_allclose(bound.run(pixels), plain.run(pixels), rtol=1e-5, atol=1e-6)


def test_rows_stay_as_they_are_when_the_buffers_are_used_again(encoder: Path) -> None:
    session = DeviceSession(encoder, providers=(CPU,), largest=4)
    first = session.run(np.full((3, 16, 16, 3), 7, np.uint8))
    kept = first.copy()
    session.run(np.full((4, 16, 16, 3), 200, np.uint8))
    np.testing.assert_array_equal(first, kept)


def test_threads_have_buffers_of_their_own(encoder: Path) -> None:
    session, plain = DeviceSession(encoder, providers=(CPU,), largest=4), Session(encoder)
    batches = [np.full((1 + i % 4, 16, 16, 3), i, np.uint8) for i in range(64)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(session.run, batches))
    for batch, rows in zip(batches, found, strict=True):
        np.testing.assert_allclose(rows, plain.run(batch), rtol=1e-5, atol=1e-6)


def test_the_buffers_are_made_once_for_each_size(encoder: Path) -> None:
    session = DeviceSession(encoder, providers=(CPU,), largest=8)
    for count in (1, 3, 4, 3, 4, 7, 8):
        session.run(np.zeros((count, 16, 16, 3), np.uint8))
    idle = session.idle
    assert {size: len(bound) for size, bound in idle.items()} == {1: 1, 2: 0, 4: 1, 8: 1}
    before = idle[4][0].input.ctypes.data
    with ThreadPoolExecutor(1) as other:  # who warms up need not be who serves
        other.submit(session.run, np.zeros((3, 16, 16, 3), np.uint8)).result()
    assert [bound.input.ctypes.data for bound in idle[4]] == [before]


class Device:
    """A session as on a device: what is bound is copied at that moment, and what is run is the copy."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def io_binding(self) -> Any:
        binding = self._session.io_binding()
        real = binding.bind_cpu_input
        binding.bind_cpu_input = lambda name, array: real(name, array.copy())
        return binding

    def run_with_iobinding(self, binding: Any) -> None:
        self._session.run_with_iobinding(binding)


def test_a_device_that_copies_what_is_bound_sees_every_batch(encoder: Path) -> None:
    plain = Session(encoder)
    raw = ort.InferenceSession(str(encoder))
    bound = Bound(Device(raw), 4, (16, 16, 3), raw.get_outputs()[0].shape[1], lock=False)
    rng = np.random.default_rng(0)
    for count in (4, 1, 3):
        pixels = rng.integers(0, 256, (count, 16, 16, 3), dtype=np.uint8)
        np.testing.assert_allclose(bound.run(pixels), plain.run(pixels), rtol=1e-5, atol=1e-6)


def test_buffers_share_no_page_of_memory() -> None:
    arrays = [pages((size, 10), np.float32) for size in (1, 2, 3)]
    assert [array.ctypes.data % mmap.PAGESIZE for array in arrays] == [0, 0, 0]
    for array in arrays:
        array[:] = array.shape[0]
        assert float(array.sum()) == 10 * array.shape[0] ** 2


class Cuda:
    """CUDA's runtime, as far as memory is locked, on paper."""

    def __init__(self, result: int) -> None:
        self.result, self.locked, self.forgotten = result, set[int](), 0

    def cudaHostRegister(self, address: Any, size: Any, flags: Any) -> int:  # noqa: N802
        self.locked |= {address.value} if self.result == 0 else set()
        return self.result

    def cudaHostUnregister(self, address: Any) -> int:  # noqa: N802
        self.locked -= {address.value}
        return 0

    def cudaGetLastError(self) -> int:  # noqa: N802
        self.forgotten += 1
        return self.result


def test_memory_is_locked_as_long_as_its_array_lives() -> None:
    cuda = Cuda(0)
    array = pages((3, 5), np.uint8)
    assert page_lock(array, cuda)
    assert cuda.locked == {array.ctypes.data}
    del array
    assert cuda.locked == set()


def test_an_error_of_locking_is_taken_back() -> None:
    cuda = Cuda(712)
    assert not page_lock(pages((3, 5), np.uint8), cuda)
    assert cuda.forgotten == 1


def test_the_runtime_tells_who_computes_what(encoder: Path) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry(RECORD, "1")
    found = nodes_by_provider(ort.InferenceSession(str(encoder), options, providers=[CPU]))
    if not found and tuple(map(int, ort.__version__.split(".")[:2])) < (1, 24):
        pytest.skip("this ONNX Runtime does not tell")
    assert set(found) == {CPU}
    check_provider(CPU, found)


def test_a_provider_that_leaves_most_of_the_nodes_to_others_is_refused() -> None:
    check_provider("CUDAExecutionProvider", {"CUDAExecutionProvider": 50, CPU: 12})
    check_provider("CUDAExecutionProvider", {})  # a runtime that does not tell
    with pytest.raises(ConfigInvalid, match="would compute 3 of the encoder's 63 nodes, and CPUExecutionProvider 60"):
        check_provider("CUDAExecutionProvider", {"CUDAExecutionProvider": 3, CPU: 60})


def test_engines_are_kept_for_each_encoder_apart(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = tmp_path / "other.onnx"
    other.write_bytes(encoder.read_bytes() + b"\0")
    first, again, second = (kept_engines(path)["trt_engine_cache_path"] for path in (encoder, encoder, other))
    assert first == again != second
    assert Path(first).is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept_engines(encoder) == {}


@pytest.mark.parametrize(("largest", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (32, [1, 2, 4, 8, 16, 32])])
def test_warm_sizes_are_powers_of_two_and_the_largest(largest: int, sizes: list[int]) -> None:
    assert warm_sizes(largest) == sizes


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="there is CUDA here")
def test_without_cuda_memory_is_not_locked_and_the_provider_is_refused(encoder: Path) -> None:
    assert not page_lock(pages((16,), np.uint8))
    with pytest.raises(ConfigInvalid, match="CUDAExecutionProvider was asked for but this ONNX Runtime has only"):
        open_session(encoder, providers=PROVIDERS["cuda"], largest=8)
