"""Whose turn it is: one of each request, one large job at a time, all within the budget, and nothing forgotten."""

from __future__ import annotations

import asyncio
import gc
import io
import random
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from nonneg_core.errors import ImageTooLarge, Overloaded
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.engine.admission import LARGE_BYTES, LARGE_SECONDS, MAX_WORK, Admission, Cost, Job, Turns
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded
from nonneg_server.engine.workers import WorkerPool, Workers

SMALL, LARGE = Cost(0.01, 1000), Cost(2 * LARGE_SECONDS, 1000)


def job(name: str, request: str, cost: Cost = SMALL) -> Job:
    return Job(name, lambda: None, cost, request)


def order(turns: Turns, seconds: float = 0.01) -> Iterator[str]:
    """One job after the other, each of which takes so long."""
    while (found := turns.begin()) is not None:
        yield str(found.promise)
        turns.end(found.cost, seconds)


def test_requests_take_turns_and_each_keeps_its_own_order() -> None:
    turns = Turns()
    for name in ("a1", "a2", "a3", "a4", "b1", "c1", "c2"):
        turns.add(job(name, name[0]))
    assert list(order(turns)) == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]


def test_a_request_that_comes_later_need_not_wait_for_all_of_an_earlier_one() -> None:
    turns = Turns()
    for number in range(200):
        turns.add(job(f"a{number}", "a"))
    began = order(turns)
    assert [next(began) for _ in range(3)] == ["a0", "a1", "a2"]
    turns.add(job("b", "b"))
    assert "b" in (next(began), next(began))


def test_one_large_job_runs_at_a_time_and_small_ones_pass_it() -> None:
    turns = Turns()
    for name in ("A", "B"):
        turns.add(job(name, name, LARGE))
    for name in ("c", "d"):
        turns.add(job(name, name))
    running = [turns.begin() for _ in range(4)]
    assert [found and found.promise for found in running] == ["A", "c", "d", None]
    large = running[0]
    assert large is not None
    assert turns.end(large.cost, 2.0)  # something waited for that
    found = turns.begin()
    assert found is not None
    assert found.promise == "B"


def test_while_small_jobs_wait_a_large_one_gets_no_more_time_than_they() -> None:
    turns = Turns()
    for number in range(4):
        turns.add(job(f"L{number}", f"L{number}", LARGE))
    for number in range(1000):
        turns.add(job(f"s{number}", f"s{number}"))
    spent = {"L": 0.0, "s": 0.0}
    for _ in range(400):
        found = turns.begin()
        assert found is not None
        kind = str(found.promise)[0]
        took = 1.0 if kind == "L" else 0.01
        spent[kind] += took
        assert spent["L"] <= spent["s"] + 1.01
        turns.end(found.cost, took)
    assert spent["L"] >= 3


def test_a_small_job_begins_beside_the_largest_that_is_let_in() -> None:
    turns = Turns()
    turns.add(job("A", "A", Cost(1.0, turns.most)))
    turns.add(job("b", "b", Cost(0.01, 20 * 2**20)))
    assert [found and found.promise for found in (turns.begin(), turns.begin())] == ["A", "b"]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1), st.integers(0, 3 * LARGE_BYTES)), max_size=40),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_every_job_begins_once_and_the_budget_holds(
    jobs: list[tuple[int, float, int]], threads: int, chance: random.Random
) -> None:
    turns = Turns(budget=4 * LARGE_BYTES)
    waiting = [
        Job(number, lambda: None, Cost(seconds, size), request) for number, (request, seconds, size) in enumerate(jobs)
    ]
    for one in waiting:
        turns.add(one)
    withdrawn = {one.promise for one in waiting if chance.random() < 0.1}
    for promise in withdrawn:
        turns.remove(promise)
    running: list[Job] = []
    began: list[object] = []
    while len(turns) or running:
        found = turns.begin() if len(running) < threads else None
        if found is not None:
            running.append(found)
            began.append(found.promise)
            assert sum(one.cost.bytes for one in running) <= turns.budget or len(running) == 1
            assert sum(one.cost.large for one in running) <= 1
        else:
            assert running, "everything waits and nothing runs"
            turns.end(running.pop(chance.randrange(len(running))).cost, chance.random())
    assert sorted(map(str, began)) == sorted(str(one.promise) for one in waiting if one.promise not in withdrawn)


def test_large_jobs_that_wait_occupy_no_thread() -> None:
    pool, gate, done = WorkerPool(2), threading.Event(), []
    large = [pool.submit(lambda: gate.wait(10), LARGE, n) for n in range(5)]
    small = [pool.submit(lambda n=n: done.append(n), SMALL, f"s{n}") for n in range(20)]
    for future in small:
        future.result(60)
    assert len(done) == 20
    assert not any(future.done() for future in large)
    gate.set()
    assert all(future.result(60) for future in large)
    pool.close(10)


def test_a_thread_that_found_no_room_goes_on_when_there_is_some() -> None:
    pool = WorkerPool(3, memory=100)
    gate = threading.Event()
    first = pool.submit(lambda: gate.wait(10), Cost(0, 60), "a")
    others = [pool.submit(lambda: 1, Cost(0, 60), n) for n in range(6)]
    gate.set()
    assert first.result(60)
    assert [future.result(60) for future in others] == [1] * 6
    pool.close(10)


def test_large_work_in_flight_is_bounded_and_small_images_still_come_in() -> None:
    admission = Admission(max_images=100, max_bytes=10**9, workers=2)
    admission.enter(20, 1000, MAX_WORK - 1)
    with pytest.raises(Overloaded) as refused:
        admission.enter(1, 1000, 2.0)
    assert (refused.value.field, refused.value.limit) == ("queue_seconds", MAX_WORK)
    admission.enter(1, 1000)
    admission.leave(20, 1000, MAX_WORK - 1)
    admission.enter(1, 1000, 2.0)
    admission.leave(1, 1000)
    admission.leave(1, 1000, 2.0)
    assert (admission.images, admission.bytes, admission.work) == (0, 0, 0.0)
    admission.enter(1, 1000, 10 * MAX_WORK)  # an empty server takes any one request


def picture(size: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 30, 90)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


@pytest.mark.anyio
async def test_an_image_that_takes_more_than_the_budget_fails_alone_and_names_it(bundle: Bundle) -> None:
    workers = Workers(1, memory=2**25)
    engine = InferenceEngine(bundle, workers=workers)
    fine, over = await engine.encode_all([picture((64, 64)), picture((3000, 3000))])
    assert isinstance(fine, Encoded)
    assert isinstance(over, ImageTooLarge)
    assert (over.field, over.limit) == ("image_memory", 7 * 2**22)
    workers.close()


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_small_image_is_done_while_many_large_ones_wait(bundle: Bundle) -> None:
    workers = Workers(2)
    engine = InferenceEngine(bundle, workers=workers)
    large = asyncio.create_task(engine.encode_all([picture((6000, 6000))] * 6))
    while not workers.pool.waiting:
        await asyncio.sleep(0.001)
    assert isinstance(await engine.encode(picture((64, 64))), Encoded)
    assert not large.done()
    assert all(isinstance(found, Encoded) for found in await large)
    workers.close()


def test_a_job_that_failed_is_forgotten_when_the_next_is_done() -> None:
    """An error knows its job by its traceback: were the thread to keep the job, all that ever failed would stay."""

    class Photo:
        pass

    pool, known = WorkerPool(1), []

    def fail(photo: Photo) -> None:
        known.append(weakref.ref(photo))
        raise ValueError

    for _ in range(10):
        photo = Photo()
        assert isinstance(pool.submit(partial(fail, photo)).exception(10), ValueError)
    del photo
    pool.submit(lambda: None).result(60)
    gc.collect()
    assert [found() for found in known] == [None] * 10
    pool.close(10)
