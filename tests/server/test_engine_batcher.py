import threading

import numpy as np
import pytest

from nonneg_server.engine.batcher import Batcher


def image(value: int) -> np.ndarray:
    return np.full((2, 2, 3), value, dtype=np.uint8)


def mean(pixels: np.ndarray) -> np.ndarray:
    return pixels.reshape(len(pixels), -1).mean(axis=1, keepdims=True).astype(np.float32)


def test_what_queued_during_the_last_run_is_the_next_batch() -> None:
    gate, sizes = threading.Event(), []

    def run(pixels: np.ndarray) -> np.ndarray:
        gate.wait(60)
        sizes.append(len(pixels))
        return mean(pixels)

    batcher = Batcher(run, largest=4)
    first = batcher.submit(image(0))
    while not first.running():
        pass
    rest = [batcher.submit(image(n)) for n in range(1, 8)]
    gate.set()
    assert [float(f.result(60)[0]) for f in [first, *rest]] == list(range(8))
    assert sizes == [1, 4, 3]
    batcher.close(5)


def test_a_cancelled_image_leaves_the_forming_batch() -> None:
    gate, sizes = threading.Event(), []

    def run(pixels: np.ndarray) -> np.ndarray:
        gate.wait(60)
        sizes.append(len(pixels))
        return mean(pixels)

    batcher = Batcher(run, largest=8)
    first = batcher.submit(image(0))
    while not first.running():
        pass
    gone, stays = batcher.submit(image(1)), batcher.submit(image(2))
    assert gone.cancel()
    gate.set()
    assert float(stays.result(60)[0]) == 2
    assert sizes == [1, 1]
    batcher.close(5)


def test_a_failing_run_fails_its_batch_and_not_the_next() -> None:
    def run(pixels: np.ndarray) -> np.ndarray:
        if pixels.max() == 7:
            raise ValueError("no")
        return mean(pixels)

    batcher = Batcher(run, largest=1)
    with pytest.raises(ValueError, match="no"):
        batcher.submit(image(7)).result(60)
    assert float(batcher.submit(image(3)).result(60)[0]) == 3
    assert batcher.failure_reason() is None
    batcher.close(5)
