"""Which job is next: requests take turns, large jobs one by one, and all wait within one budget of memory.

A request of two hundred images and one of a single one each have one of theirs done in turn. A large job, of which one
runs at a time, waits here and not on a thread; while small ones wait, it gets no more of the threads' time than they.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

LARGE_SECONDS = 0.3  # of a core: from here on a job is large; a photo of 12 megapixels is not,
LARGE_BYTES = 64 * 2**20  # or from so much memory
BUDGET = 512 * 2**20  # bytes, of all jobs that run,
RESERVE = 8  # of which the eighth part is kept from large ones: small ones go on beside the largest


class Cost(NamedTuple):
    """What a job takes at most."""

    seconds: float = 0.0
    bytes: int = 0

    @property
    def large(self) -> bool:
        return self.seconds > LARGE_SECONDS or self.bytes > LARGE_BYTES


class Job(NamedTuple):
    """Work for a promise, and the request that it belongs to."""

    promise: Hashable
    work: Callable[[], Any]
    cost: Cost
    request: Hashable


class Turns:
    """Jobs that wait; `begin` gives the next that may run, `end` takes note that it has. Its user holds a lock."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self.small = Line()
        self.large = Line()
        self._running = 0
        self._bytes = 0
        self._large = False  # whether one runs
        self._owed = 0.0  # seconds that small jobs are behind a large one
        self._held_up = False  # something waits that could not begin

    def __len__(self) -> int:
        return len(self.small) + len(self.large)

    @property
    def most(self) -> int:
        """Bytes that one job may take."""
        return self.budget - self.budget // RESERVE

    def add(self, job: Job) -> None:
        (self.large if job.cost.large else self.small).add(job)

    def remove(self, promise: Hashable) -> None:
        """Forget a job that has not begun."""
        self.small.remove(promise)
        self.large.remove(promise)

    def begin(self) -> Job | None:
        """Return the next job, if one may begin now."""
        line = self.large if self._turn_of_a_large_one() else self.small
        job = line.first()
        if job is None or not self._fits(job.cost):
            self._held_up = len(self) > 0
            return None
        line.remove(job.promise)
        self._running += 1
        self._bytes += job.cost.bytes
        if job.cost.large:
            self._large = True
        return job

    def end(self, cost: Cost, seconds: float) -> bool:
        """Note that a job of that cost ran for so long; return whether something else may begin now that could not."""
        self._running -= 1
        self._bytes -= cost.bytes
        if cost.large:
            self._large, self._owed = False, seconds
        else:
            self._owed = max(0.0, self._owed - seconds)
        held_up, self._held_up = self._held_up, False
        return held_up

    def all(self) -> Iterator[Job]:
        """Yield everything that waits, taken out."""
        for line in (self.small, self.large):
            while (job := line.first()) is not None:
                line.remove(job.promise)
                yield job

    def _turn_of_a_large_one(self) -> bool:
        job = self.large.first()
        if job is None or self._large or not self._fits(job.cost):
            return False
        return not self.small or not self._owed

    def _fits(self, cost: Cost) -> bool:
        return not self._running or self._bytes + cost.bytes <= (self.most if cost.large else self.budget)


class Line:
    """Jobs in order: one of each request in turn, a request's own as they came."""

    def __init__(self) -> None:
        self._requests: OrderedDict[Hashable, OrderedDict[Hashable, Job]] = OrderedDict()
        self._request_of: dict[Hashable, Hashable] = {}

    def __len__(self) -> int:
        return len(self._request_of)

    def add(self, job: Job) -> None:
        self._requests.setdefault(job.request, OrderedDict())[job.promise] = job
        self._request_of[job.promise] = job.request

    def first(self) -> Job | None:
        return next((next(iter(jobs.values())) for jobs in self._requests.values()), None)

    def remove(self, promise: Hashable) -> None:
        """Take it out; its request goes to the end of the line if the job was its first."""
        if promise not in self._request_of:
            return
        request = self._request_of.pop(promise)
        jobs = self._requests[request]
        had_the_turn = next(iter(jobs)) is promise
        del jobs[promise]
        if not jobs:
            del self._requests[request]
        elif had_the_turn:
            self._requests.move_to_end(request)
