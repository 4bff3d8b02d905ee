"""Results come back to the event loop: at once where there is little to do, several at a time where there is much."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from nonneg_server.engine import workers as of_the_loop
from nonneg_server.engine import workers as of_the_pool
from nonneg_server.engine.workers import LONGEST_HELD, MOST_HELD, Completions, WorkerPool

pytestmark = pytest.mark.anyio


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(1)
    yield made
    made.close(5)


async def test_a_lone_result_comes_back_at_once(pool: WorkerPool) -> None:
    completions = Completions(asyncio.get_running_loop(), pool)
    future = completions.expect()
    pool.enqueue(future, lambda: "vector")
    assert await asyncio.wait_for(future.outcome, 60) == "vector"


async def test_an_error_comes_back_as_itself(pool: WorkerPool) -> None:
    future = Completions(asyncio.get_running_loop(), pool).expect()
    pool.enqueue(future, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(future.outcome, 60)


async def test_with_a_deep_queue_results_come_back_together_in_order(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (of_the_pool, of_the_loop):
        monkeypatch.setattr(module, "LONGEST_HELD", 60)  # however busy the machine is, by number and not by time
    loop, gate, heard = asyncio.get_running_loop(), threading.Event(), []
    completions = Completions(loop, pool)
    deliveries = []
    deliver = completions.deliver
    completions.deliver = lambda: (deliveries.append(1), deliver())  # type: ignore[assignment,return-value]
    futures = [completions.expect() for _ in range(3 * MOST_HELD)]
    pool.submit(lambda: gate.wait(60))
    for number, future in enumerate(futures):
        future.outcome.add_done_callback(lambda future: heard.append(future.result()))
        pool.enqueue(future, lambda number=number: number)
    gate.set()
    await asyncio.wait_for(asyncio.gather(*(future.outcome for future in futures)), 60)
    assert heard == list(range(len(futures)))
    assert len(deliveries) < len(futures)


async def test_a_result_is_not_held_for_long_behind_a_slow_image(pool: WorkerPool) -> None:
    loop, slow, begun = asyncio.get_running_loop(), threading.Event(), threading.Event()
    completions = Completions(loop, pool)
    quick = completions.expect()
    pool.submit(lambda: begun.wait(60))
    pool.enqueue(quick, lambda: "quick")
    for _ in range(4):
        pool.enqueue(completions.expect(), lambda: slow.wait(60))
    begun.set()
    assert await asyncio.wait_for(quick.outcome, 20 * LONGEST_HELD) == "quick"
    slow.set()


async def test_who_left_is_not_told(pool: WorkerPool) -> None:
    gate = threading.Event()
    future = Completions(asyncio.get_running_loop(), pool).expect()
    pool.enqueue(future, lambda: gate.wait(60))
    await asyncio.sleep(0.02)
    future.outcome.cancel()
    gate.set()
    assert await asyncio.wrap_future(pool.submit(lambda: "still there")) == "still there"


def test_a_thread_survives_that_the_loop_was_closed(pool: WorkerPool) -> None:
    gate = threading.Event()

    async def leave() -> None:
        pool.enqueue(Completions(asyncio.get_running_loop(), pool).expect(), lambda: gate.wait(60))

    asyncio.run(leave())
    gate.set()
    assert pool.submit(lambda: "alive").result(60) == "alive"
    assert pool.failure_reason() is None
