from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nonneg_core.errors import Overloaded
from nonneg_server.engine.admission import Admission


@contextmanager
def entered(gate: Admission, images: int, size: int) -> Iterator[None]:
    gate.enter(images, size)
    yield
    gate.leave(images, size)


def test_beyond_the_count_a_request_is_refused_whole() -> None:
    gate = Admission(max_images=4, max_bytes=1000, workers=2)
    with entered(gate, 3, 30):
        with (
            pytest.raises(Overloaded, match="3 images in flight, 2 more would exceed 4") as refused,
            entered(gate, 2, 1),
        ):
            pass
        assert (refused.value.field, refused.value.value, refused.value.limit) == ("queue_images", 2, 4)
        assert gate.images == 3
        with entered(gate, 1, 1):
            assert gate.images == 4
    assert (gate.images, gate.bytes) == (0, 0)


def test_beyond_the_bytes_too() -> None:
    gate = Admission(max_images=100, max_bytes=1000, workers=2)
    with entered(gate, 1, 900), pytest.raises(Overloaded, match="exceed 1000"), entered(gate, 1, 200):
        pass


def test_an_empty_server_takes_any_one_request() -> None:
    gate = Admission(max_images=4, max_bytes=10, workers=2)
    with entered(gate, 9, 999):
        assert gate.images == 9


def test_retry_after_is_the_backlog_at_the_measured_rate() -> None:
    gate = Admission(max_images=8, max_bytes=10**9, workers=2)
    for _ in range(200):
        gate.served(0.5)
    assert gate.rate == pytest.approx(4.0)
    with entered(gate, 8, 1), pytest.raises(Overloaded) as refused, entered(gate, 1, 1):
        pass
    assert refused.value.retry_after == pytest.approx(2.0)


def test_one_slow_image_does_not_make_the_rate() -> None:
    gate = Admission(max_images=8, max_bytes=10, workers=1)
    for _ in range(50):
        gate.served(0.01)
    gate.served(1.0)
    assert gate.rate > 8
