"""The process's workers: threads that each do one whole job, and the results' way back to the event loop.

While there is plenty to do, a thread hands over what it has done several jobs at a time. Code that has just run is
still in the caches, and writing an answer after an inference takes several times as long as after another answer.
No thread idles for it: the queue is long enough until the next requests come.

What waits, and what comes next, is in `admission.py`. A job that is not wanted any more is withdrawn (client gone,
deadline passed) and then never runs. A thread that ends without being told to, or a job that does not end, makes the
pool unhealthy: `/livez` asks.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from nonneg_core.errors import NotReady
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_server.engine.admission import BUDGET, Admission, Cost, Job, Turns

T = TypeVar("T")
MOST_HELD = 4  # outcomes that one thread holds
LONGEST_HELD = 0.1  # seconds


class FutureLike(Hashable, Protocol):
    """What the pool needs of a future: `concurrent.futures.Future` has it, and so has a `LoopFuture`."""

    def set_running_or_notify_cancel(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def cancel(self) -> bool: ...


class BatchedFuture:
    """A future whose result may be set together with others', and is then handed on by `hand_out`."""

    __slots__ = ()

    def hand_out(self) -> None:
        raise NotImplementedError


JobOutcome = tuple[float, FutureLike, Any, BaseException | None]  # when its job began; what it gave or raised


class WorkerPool:
    """As many threads as cores, fed with one job of each request in turn."""

    def __init__(self, threads: int, *, stall_seconds: float = 120.0, memory: int = BUDGET) -> None:
        self.size = threads
        self._stall_seconds = stall_seconds
        self._held: list[deque[JobOutcome]] = [deque() for _ in range(threads)]
        self._turns = Turns(memory)
        self._changed = threading.Condition()
        self._closing = False
        self._since: dict[int, float] = {}  # thread number -> when its present job began
        self._death: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"encode-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], T], cost: Cost | None = None, request: Hashable = None) -> Future[T]:
        """Queue `work`; the future holds what it returns or raises. Cancel the future to withdraw it."""
        future: Future[T] = Future()
        self.enqueue(future, work, cost, request)
        return future

    def enqueue(
        self, future: FutureLike, work: Callable[[], Any], cost: Cost | None = None, request: Hashable = None
    ) -> None:
        """Queue `work` for a future of the caller's own kind; what belongs to no request takes turns as one."""
        with self._changed:
            if self._closing or self._death is not None:
                raise not_available("the server is shutting down" if self._closing else "a worker thread died")
            self._turns.add(Job(future, work, cost or Cost(), request))
            self._changed.notify()

    def withdraw(self, future: FutureLike) -> None:
        """Remove a job that has not begun; a running job continues and its result is dropped."""
        future.cancel()
        with self._changed:
            self._turns.remove(future)

    def hand_over(self) -> None:
        """Deliver what is held, where the next job turned out to be a long one; from any thread."""
        for outcomes in self._held:
            _deliver(outcomes)

    @property
    def most(self) -> int:
        """Bytes that one job may take."""
        return self._turns.most

    @property
    def waiting(self) -> int:
        return len(self._turns)

    def failure_reason(self) -> str | None:
        """Return why this pool can no longer be trusted; None while it works."""
        if self._death is not None:
            return f"a worker thread died ({type(self._death).__name__}: {self._death})"
        oldest = min(list(self._since.values()), default=None)
        if oldest is not None and time.monotonic() - oldest > self._stall_seconds:
            return f"a job has been running for more than {self._stall_seconds:g} s"
        return None

    def close(self, timeout: float | None = None) -> None:
        """Let what runs finish, give up what waits, end the threads."""
        with self._changed:
            self._closing = True
            self._give_up("the server is shutting down")
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout)

    def _work(self, number: int) -> None:
        last: tuple[Cost, float] | None = None
        try:
            while (last := self._serve_one(number, last)) is not None:
                pass
        except BaseException as error:
            with self._changed:
                self._death = error
                self._give_up("a worker thread died")

    def _serve_one(self, number: int, last: tuple[Cost, float] | None) -> tuple[Cost, float] | None:
        """Take a job and do it; its cost and seconds, to be noted as the next is taken. None if there is none left."""
        # A frame of its own, so that an idle thread does not keep the last image alive.
        outcomes = self._held[number]
        job = self._take(outcomes, last)
        if job is None:
            return None
        future: Any = job.promise
        if not future.set_running_or_notify_cancel():
            return job.cost, 0.0
        self._since[number] = began = time.monotonic()
        try:
            outcomes.append((began, future, job.work(), None))
        except Exception as error:
            outcomes.append((began, future, None, error))
        except BaseException as error:
            outcomes.append((began, future, None, not_available(f"a worker thread died ({type(error).__name__})")))
            _deliver(outcomes)
            raise
        finally:
            self._since.pop(number, None)
        if not isinstance(future, BatchedFuture):
            _deliver(outcomes)
        return job.cost, time.monotonic() - began

    def _take(self, outcomes: deque[JobOutcome], last: tuple[Cost, float] | None) -> Job | None:
        """Return the next job; what is held goes out first, unless enough waits to go on with."""
        while True:
            with self._changed:
                if last is not None and self._turns.end(*last):
                    self._changed.notify_all()
                last = None
                if not outcomes or self._enough(outcomes):
                    while not self._closing:
                        if (job := self._turns.begin()) is not None:
                            return job
                        if outcomes:
                            break
                        self._changed.wait()
                    if self._closing:
                        return None
            _deliver(outcomes)

    def _enough(self, outcomes: deque[JobOutcome]) -> bool:
        if self._closing or len(outcomes) >= min(MOST_HELD, len(self._turns.small) // self.size):
            return False
        try:
            oldest, *_ = outcomes[0]
        except IndexError:  # `hand_over` took it this instant
            return True
        return time.monotonic() - oldest < LONGEST_HELD / 2

    def _give_up(self, reason: str) -> None:
        given_up: deque[JobOutcome] = deque()
        for job in self._turns.all():
            future: Any = job.promise
            if future.set_running_or_notify_cancel():
                given_up.append((0.0, future, None, not_available(reason)))
        _deliver(given_up)


def _deliver(outcomes: deque[JobOutcome]) -> None:
    """Set all results, then hand them on: a woken thread may take this core, and its caches."""
    futures = []
    while True:
        try:
            _, future, result, error = outcomes.popleft()
        except IndexError:
            break
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
        futures.append(future)
    for future in futures:
        if isinstance(future, BatchedFuture):
            future.hand_out()


def not_available(reason: str) -> NotReady:
    """Return the error of work that will not be done here any more."""
    return NotReady(reason, fix="ask another server, or this one after it has restarted", retry_after=1)


# Results on their way from the threads back to the event loop: those that come together wake it once.
#
# Waking the loop costs its thread a cold start during the inference, and the thread that it displaces another one
# afterwards.


class LoopFuture(BatchedFuture):
    """One image's result on the loop's side; for the pool a future like another."""

    __slots__ = ("_completions", "outcome")

    def __init__(self, completions: "Completions") -> None:
        self.outcome: asyncio.Future[Any] = completions.loop.create_future()
        self._completions = completions

    def set_running_or_notify_cancel(self) -> bool:
        return not self.outcome.done()

    def set_result(self, result: object) -> None:
        self._completions.put(self.outcome, result, None)

    def set_exception(self, error: BaseException) -> None:
        self._completions.put(self.outcome, None, error)

    def hand_out(self) -> None:
        self._completions.call()

    def cancel(self) -> bool:
        return self.outcome.cancel()


class Completions:
    """Collects worker results for one event loop and wakes it once a burst."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: WorkerPool) -> None:
        self.loop = loop
        self._pool = pool
        self._down: deque[tuple[asyncio.Future[Any], object, BaseException | None]] = deque()
        self._called = False
        self._ticking = False

    def expect(self) -> LoopFuture:
        """Return a future for one job, to be queued at once."""
        if not self._ticking:
            self._ticking = True
            self.loop.call_later(LONGEST_HELD, self._tick)
        return LoopFuture(self)

    def put(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        """Take a result from a worker thread; `call` follows."""
        self._down.append((future, result, error))

    def call(self) -> None:
        """Wake the loop from a worker thread, unless it is being woken."""
        if self._called:
            return
        self._called = True
        try:
            self.loop.call_soon_threadsafe(self.deliver)
        except RuntimeError:  # the loop is closed
            self._down.clear()

    def deliver(self) -> None:
        """Set all collected results on the event loop."""
        self._called = False
        while self._down:
            future, result, error = self._down.popleft()
            if future.done():  # cancelled, or expired
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _tick(self) -> None:
        self._pool.hand_over()
        self._ticking = self._pool.waiting > 0
        if self._ticking:
            self.loop.call_later(LONGEST_HELD, self._tick)


# The process's workers: its threads and the bounds of the queue before them, shared by every model it serves.

MAX_IMAGES = 512
MAX_BYTES = 256 * 2**20
STALL_SECONDS = 120.0


class Workers:
    """As many threads as cores; what is in flight is bounded by count, by bytes and by large images' price."""

    def __init__(
        self,
        threads: int | None = None,
        *,
        max_images: int = MAX_IMAGES,
        max_bytes: int = MAX_BYTES,
        memory: int = BUDGET,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self.threads = threads or available_cores()
        self.pool = WorkerPool(self.threads, stall_seconds=stall_seconds, memory=memory)
        self.admission = Admission(max_images=max_images, max_bytes=max_bytes, workers=self.threads)
        self._completions: Completions | None = None

    def completions(self) -> Completions:
        """Return where results come down for the running event loop."""
        loop = asyncio.get_running_loop()
        if self._completions is None or self._completions.loop is not loop:
            self._completions = Completions(loop, self.pool)
        return self._completions

    def close(self, timeout: float | None = None) -> None:
        self.pool.close(timeout)
