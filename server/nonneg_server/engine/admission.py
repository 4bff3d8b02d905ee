"""Which requests are admitted, which job is next, and what an idle server gives back.

All of it is called from the event loop, so that nothing here needs a lock.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from nonneg_core.errors import Overloaded
from nonneg_core.process import cores_and_allocator as allocator

SMOOTHING = 0.1  # weight of the newest service time in the moving average
FIRST_GUESS = 0.02  # seconds an image takes, before any was measured
MAX_WORK = 60.0  # seconds of a core, the price of all large images in flight, which are decoded one by one


class Admission:
    """Counts what is in flight and refuses what is too much; it knows the rate at which work is done."""

    def __init__(self, *, max_images: int, max_bytes: int, workers: int) -> None:
        self.max_images = max_images
        self.max_bytes = max_bytes
        self.images = 0
        self.bytes = 0
        self.work = 0.0
        self.entered = 0  # images that were let in so far
        self.refused = 0
        self._workers = workers
        self._seconds: float | None = None  # an image's mean service time by one worker

    def enter(self, images: int, size: int, work: float = 0.0) -> None:
        """Take places for a whole request, or raise Overloaded. An empty server takes any one request.

        `work` is the price of its large images, of which others may have taken all there is: small ones still come in.
        """
        if not self._fits(images, size):
            if self.images + images > self.max_images:
                raise self._refused("images", images, self.images, self.max_images)
            raise self._refused("bytes", size, self.bytes, self.max_bytes)
        if work and self.work and self.work + work > MAX_WORK:
            raise self._refused("seconds", math.ceil(work), math.ceil(self.work), round(MAX_WORK))
        self.images += images
        self.bytes += size
        self.work += work
        self.entered += images

    def leave(self, images: int, size: int, work: float = 0.0) -> None:
        """Give the places back."""
        self.images -= images
        self.bytes -= size
        self.work = self.work - work if self.images else 0.0

    def served(self, seconds: float) -> None:
        """Take note that one image took this long, from leaving the queue to its vector."""
        known = self._seconds
        self._seconds = seconds if known is None else known + SMOOTHING * (seconds - known)

    @property
    def rate(self) -> float:
        """Images a second when every worker is busy."""
        return self._workers / max(self._seconds or FIRST_GUESS, 1e-6)

    @property
    def backlog_seconds(self) -> float:
        """How long all that is in flight will take."""
        return self.images / self.rate

    @property
    def full(self) -> bool:
        """Whether not even one image more is let in."""
        return not self._fits(1, 1)

    def refusal(self) -> Overloaded:
        """Return the error of a request that comes while it is full."""
        if self.images >= self.max_images:
            return self._overloaded("images", 1, self.images, self.max_images)
        return self._overloaded("bytes", 1, self.bytes, self.max_bytes)

    def _fits(self, images: int, size: int) -> bool:
        return not self.images or (self.images + images <= self.max_images and self.bytes + size <= self.max_bytes)

    def _refused(self, field: str, value: int, in_flight: int, limit: int) -> Overloaded:
        self.refused += 1
        return self._overloaded(field, value, in_flight, limit)

    def _overloaded(self, field: str, value: int, in_flight: int, limit: int) -> Overloaded:
        wait = max(self.backlog_seconds, 1 / self.rate)
        return Overloaded(
            f"the queue is full: {in_flight} {field} in flight, {value} more would exceed {limit}",
            fix=f"try again in {math.ceil(wait * 1000)} ms, with fewer requests at once",
            field=f"queue_{field}",
            value=value,
            limit=limit,
            retry_after=wait,
        )


# Which job is next: requests take turns, large jobs one by one, and all wait within one budget of memory.
#
# A request of two hundred images and one of a single one each have one of theirs done in turn. A large job, of which
# one runs at a time, waits here and not on a thread; while small ones wait, it gets no more of the threads' time than
# they.

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


# An idle server gives back what its heaps kept of a burst of large photos.

QUIET = 5.0  # seconds without an image
MUCH = 16 * 2**20  # bytes; less is soon taken again


class Idle:
    """Looks once a second, on the event loop, which has nothing else to do when it acts."""

    def __init__(self) -> None:
        self._entered = 0
        self._since: float | None = None  # when an image was last seen; None if all is given back

    def look(self, now: float, gates: Iterable[Admission]) -> None:
        busy, entered = 0, 0
        for gate in set(gates):
            busy, entered = busy + gate.images, entered + gate.entered
        if busy or entered != self._entered:
            self._entered, self._since = entered, now
        elif self._since is not None and now - self._since >= QUIET:
            self._since = None
            if allocator.free_bytes() >= MUCH:
                allocator.trim()
