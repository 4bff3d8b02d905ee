"""Results come back to the event loop: at once where there is little to do, several at a time where there is much."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from nonneg_server.engine.completions import Strip
from nonneg_server.engine.pool import LONGEST_HELD, MOST_HELD, Pool

pytestmark = pytest.mark.anyio


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(1)
    yield made
    made.close(5)


async def test_a_lone_result_comes_back_at_once(pool: Pool) -> None:
    strip = Strip(asyncio.get_running_loop(), pool)
    landing = strip.expect()
    pool.enqueue(landing, lambda: "vector")
    assert await asyncio.wait_for(landing.future, 5) == "vector"


async def test_an_error_comes_back_as_itself(pool: Pool) -> None:
    landing = Strip(asyncio.get_running_loop(), pool).expect()
    pool.enqueue(landing, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(landing.future, 5)


async def test_with_a_deep_queue_results_come_back_together_in_order(pool: Pool) -> None:
    loop, gate, heard = asyncio.get_running_loop(), threading.Event(), []
    strip = Strip(loop, pool)
    deliveries = []
    deliver = strip.deliver
    strip.deliver = lambda: (deliveries.append(1), deliver())  # type: ignore[assignment,return-value]
    landings = [strip.expect() for _ in range(3 * MOST_HELD)]
    pool.submit(lambda: gate.wait(5))
    for number, landing in enumerate(landings):
        landing.future.add_done_callback(lambda future: heard.append(future.result()))
        pool.enqueue(landing, lambda number=number: number)
    gate.set()
    await asyncio.wait_for(asyncio.gather(*(landing.future for landing in landings)), 5)
    assert heard == list(range(len(landings)))
    assert len(deliveries) < len(landings)


async def test_a_result_is_not_held_for_long_behind_a_slow_image(pool: Pool) -> None:
    loop, slow, begun = asyncio.get_running_loop(), threading.Event(), threading.Event()
    strip = Strip(loop, pool)
    quick = strip.expect()
    pool.submit(lambda: begun.wait(5))
    pool.enqueue(quick, lambda: "quick")
    for _ in range(4):
        pool.enqueue(strip.expect(), lambda: slow.wait(5))
    begun.set()
    assert await asyncio.wait_for(quick.future, 20 * LONGEST_HELD) == "quick"
    slow.set()


async def test_who_left_is_not_told(pool: Pool) -> None:
    gate = threading.Event()
    landing = Strip(asyncio.get_running_loop(), pool).expect()
    pool.enqueue(landing, lambda: gate.wait(5))
    await asyncio.sleep(0.02)
    landing.future.cancel()
    gate.set()
    assert await asyncio.wrap_future(pool.submit(lambda: "still there")) == "still there"


def test_a_thread_survives_that_the_loop_was_closed(pool: Pool) -> None:
    gate = threading.Event()

    async def leave() -> None:
        pool.enqueue(Strip(asyncio.get_running_loop(), pool).expect(), lambda: gate.wait(5))

    asyncio.run(leave())
    gate.set()
    assert pool.submit(lambda: "alive").result(5) == "alive"
    assert pool.ailment() is None
