import threading
import time
import weakref
from concurrent.futures import CancelledError

import pytest

from nonneg_client.errors import NotReady
from nonneg_server.engine.pool import Pool


@pytest.fixture
def pool():
    made = Pool(2)
    yield made
    made.close(5)


def test_jobs_run_in_order_of_arrival() -> None:
    pool, seen = Pool(1), []
    futures = [pool.submit(lambda n=n: seen.append(n)) for n in range(50)]
    for future in futures:
        future.result(5)
    assert seen == list(range(50))
    pool.close(5)


def test_as_many_jobs_run_at_once_as_there_are_threads(pool: Pool) -> None:
    meeting = threading.Barrier(2)
    first, second = pool.submit(lambda: meeting.wait(5)), pool.submit(lambda: meeting.wait(5))
    assert {first.result(5), second.result(5)} == {0, 1}


def test_a_failing_job_fails_alone(pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(5)
    assert pool.submit(lambda: "fine").result(5) == "fine"
    assert pool.ailment() is None


def test_a_withdrawn_job_never_runs_and_frees_what_it_holds() -> None:
    pool, gate, ran = Pool(1), threading.Event(), []

    class Image:
        pass

    image = Image()
    held = weakref.ref(image)
    busy = pool.submit(lambda: gate.wait(5))
    waiting = pool.submit(lambda image=image: ran.append(image))
    del image
    assert held() is not None
    pool.withdraw(waiting)
    assert held() is None
    gate.set()
    assert busy.result(5)
    pool.submit(lambda: None).result(5)
    assert ran == []
    with pytest.raises(CancelledError):
        waiting.result(0)
    pool.close(5)


def test_an_idle_thread_does_not_keep_the_last_image_alive(pool: Pool) -> None:
    class Image:
        pass

    image = Image()
    held = weakref.ref(image)
    pool.submit(lambda image=image: None).result(5)
    del image
    deadline = time.monotonic() + 5
    while held() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_noticed_and_nobody_waits_for_it() -> None:
    pool, gate = Pool(1), threading.Event()

    def die() -> None:
        gate.wait(5)
        raise SystemExit("torn down")

    dying, behind = pool.submit(die), pool.submit(lambda: "never")
    gate.set()
    for future in (dying, behind):
        with pytest.raises(NotReady, match="worker thread died"):
            future.result(5)
    assert "SystemExit" in (pool.ailment() or "")
    with pytest.raises(NotReady, match="worker thread died"):
        pool.submit(lambda: None)
    pool.close(5)


def test_a_job_that_does_not_end_is_an_ailment() -> None:
    pool, gate = Pool(1, stall_seconds=0.05), threading.Event()
    future = pool.submit(lambda: gate.wait(5))
    time.sleep(0.2)
    assert "running for more than" in (pool.ailment() or "")
    gate.set()
    future.result(5)
    assert pool.ailment() is None
    pool.close(5)


def test_closing_finishes_what_runs_and_gives_up_what_waits() -> None:
    pool, gate = Pool(1), threading.Event()
    running = pool.submit(lambda: gate.wait(5))
    while pool.waiting:
        time.sleep(0.001)
    waiting = pool.submit(lambda: "never")
    threading.Timer(0.05, gate.set).start()
    pool.close(5)
    assert running.result(0) is True
    with pytest.raises(NotReady, match="shutting down"):
        waiting.result(0)
