"""What a GPU is fed with, as far as a CPU shows it: the same bindings and batch sizes, on the CPU's provider."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto

from nonneg_client.errors import ConfigInvalid
from nonneg_export.canonical import save
from nonneg_export.device import Bound, DeviceSession, page_lock, warm_sizes
from nonneg_export.runtime import CPU, PROVIDERS, Session, open_session


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
    bound: dict[int, Bound] = session._own.bound
    assert sorted(bound) == [1, 4, 8]
    before = [b.input.ctypes.data for b in bound.values()]
    session.run(np.zeros((3, 16, 16, 3), np.uint8))
    assert [b.input.ctypes.data for b in bound.values()] == before


@pytest.mark.parametrize(("largest", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (32, [1, 2, 4, 8, 16, 32])])
def test_warm_sizes_are_powers_of_two_and_the_largest(largest: int, sizes: list[int]) -> None:
    assert warm_sizes(largest) == sizes


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="there is CUDA here")
def test_without_cuda_memory_is_not_locked_and_the_provider_is_refused(encoder: Path) -> None:
    assert not page_lock(np.zeros(16, np.uint8))
    with pytest.raises(ConfigInvalid, match="CUDAExecutionProvider was asked for but this ONNX Runtime has only"):
        open_session(encoder, providers=PROVIDERS["cuda"], largest=8)
