import sys
import threading
import time
import weakref
from concurrent.futures import CancelledError, Future

import pytest

from nonneg_core.errors import NotReady
from nonneg_server.engine.workers import BatchedFuture, WorkerPool


@pytest.fixture
def pool():
    made = WorkerPool(2)
    yield made
    made.close(5)


def test_jobs_run_in_order_of_arrival() -> None:
    pool, seen = WorkerPool(1), []
    futures = [pool.submit(lambda n=n: seen.append(n)) for n in range(50)]
    for future in futures:
        future.result(60)
    assert seen == list(range(50))
    pool.close(5)


def test_as_many_jobs_run_at_once_as_there_are_threads(pool: WorkerPool) -> None:
    meeting = threading.Barrier(2)
    first, second = pool.submit(lambda: meeting.wait(60)), pool.submit(lambda: meeting.wait(60))
    assert {first.result(60), second.result(60)} == {0, 1}


def test_a_failing_job_fails_alone(pool: WorkerPool) -> None:
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(60)
    assert pool.submit(lambda: "fine").result(60) == "fine"
    assert pool.failure_reason() is None


def test_a_withdrawn_job_never_runs_and_frees_what_it_holds() -> None:
    pool, gate, ran = WorkerPool(1), threading.Event(), []

    class Image:
        pass

    image = Image()
    held = weakref.ref(image)
    busy = pool.submit(lambda: gate.wait(60))
    waiting = pool.submit(lambda image=image: ran.append(image))
    del image
    assert held() is not None
    pool.withdraw(waiting)
    assert held() is None
    gate.set()
    assert busy.result(60)
    pool.submit(lambda: None).result(60)
    assert ran == []
    with pytest.raises(CancelledError):
        waiting.result(0)
    pool.close(5)


def test_an_idle_thread_does_not_keep_the_last_image_alive(pool: WorkerPool) -> None:
    class Image:
        pass

    image = Image()
    held = weakref.ref(image)
    pool.submit(lambda image=image: None).result(60)
    del image
    deadline = time.monotonic() + 60
    while held() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_noticed_and_not_waited_for() -> None:
    pool, gate = WorkerPool(1), threading.Event()

    def die() -> None:
        gate.wait(60)
        raise SystemExit("torn down")

    dying, behind = pool.submit(die), pool.submit(lambda: "never")
    gate.set()
    for future in (dying, behind):
        with pytest.raises(NotReady, match="worker thread died"):
            future.result(60)
    assert "SystemExit" in (pool.failure_reason() or "")
    with pytest.raises(NotReady, match="worker thread died"):
        pool.submit(lambda: None)
    pool.close(5)


def test_a_job_that_does_not_end_is_an_failure_reason() -> None:
    pool, gate = WorkerPool(1, stall_seconds=0.05), threading.Event()
    future = pool.submit(lambda: gate.wait(60))
    until = time.monotonic() + 30
    while (found := pool.failure_reason()) is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert "running for more than" in found
    gate.set()
    future.result(60)
    assert pool.failure_reason() is None
    pool.close(5)


def test_closing_finishes_what_runs_and_gives_up_what_waits() -> None:
    pool, gate = WorkerPool(1), threading.Event()
    running = pool.submit(lambda: gate.wait(60))
    while pool.waiting:
        time.sleep(0.001)
    waiting = pool.submit(lambda: "never")
    threading.Timer(0.05, gate.set).start()
    pool.close(5)
    assert running.result(0) is True
    with pytest.raises(NotReady, match="shutting down"):
        waiting.result(0)


class Noted(Future, BatchedFuture):
    """A promise that may wait, and tells when it was told and when it was to hand on."""

    def __init__(self, name: str, log: list[str]) -> None:
        super().__init__()
        self.name, self.log = name, log

    def set_result(self, result: object) -> None:
        self.log.append(f"told {self.name}")
        super().set_result(result)

    def hand_out(self) -> None:
        self.log.append(f"handed out {self.name}")


def held_back(waiting: int) -> tuple[WorkerPool, threading.Event, list[str], list[Noted]]:
    """A thread at work, and so many patient jobs behind, each of which waits to be let go on."""
    pool, gate, log = WorkerPool(1), threading.Event(), []
    pool.submit(lambda: gate.wait(60))
    promises = [Noted(str(n), log) for n in range(waiting)]
    for promise in promises:
        pool.enqueue(promise, lambda promise=promise: log.append(f"ran {promise.name}"))
    return pool, gate, log, promises


def test_with_much_to_do_several_are_told_before_any_is_handed_out() -> None:
    pool, gate, log, promises = held_back(6)
    gate.set()
    for promise in promises:
        promise.result(60)
    pool.close(5)
    assert [line for line in log if line.startswith("ran")] == [f"ran {n}" for n in range(6)]
    assert log[:3] == ["ran 0", "ran 1", "ran 2"]  # what waits is as much as what is held, and more
    assert log[3:9] == [f"{what} {n}" for what in ("told", "handed out") for n in range(3)]
    assert log[-3:] == ["ran 5", "told 5", "handed out 5"]  # nothing waits: it goes at once


def test_a_lone_job_is_handed_out_at_once() -> None:
    pool, gate, log, promises = held_back(1)
    gate.set()
    promises[0].result(60)
    pool.close(5)
    assert log == ["ran 0", "told 0", "handed out 0"]


def test_what_is_held_can_be_delivered_by_others_and_is_not_lost_at_the_end() -> None:
    pool, gate, log, promises = held_back(8)
    slow = threading.Event()
    pool.enqueue(Noted("slow", log), lambda: slow.wait(60))
    pool.withdraw(promises.pop())
    gate.set()
    until = time.monotonic() + 60
    while not all(promise.done() for promise in promises):
        pool.hand_over()
        assert time.monotonic() < until
    slow.set()
    pool.close(5)
    assert log.count("handed out 0") == 1
    assert log[-1] == "handed out slow"


def test_who_waits_when_the_threads_are_gone_is_told_and_hands_it_on() -> None:
    pool, gate, log, promises = held_back(3)
    threading.Timer(0.05, gate.set).start()
    pool.close(5)
    for promise in promises:
        with pytest.raises(NotReady, match="shutting down"):
            promise.result(0)
    assert log == [f"handed out {n}" for n in range(3)]


def test_threads_live_on_when_others_deliver_what_they_hold_at_any_instant() -> None:
    pool, log = WorkerPool(2), []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns after nearly every instruction
    try:
        for _ in range(150):
            promises = [Noted(str(n), log) for n in range(60)]
            for promise in promises:
                pool.enqueue(promise, lambda: None)
            while not all(promise.done() for promise in promises):
                pool.hand_over()
                assert pool.failure_reason() is None
    finally:
        sys.setswitchinterval(interval)
        pool.close(5)
    assert log.count("handed out 0") == 150
