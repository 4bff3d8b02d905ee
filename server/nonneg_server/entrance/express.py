"""Plain requests without a task: heard on the loop, encoded and answered by one thread from end to end.

A request is plain if it is one image in a bare body, and its connection has asked the same thing before: then all
that it says is known, and nothing has to be awaited between its last byte and its answer. Everything else, everything
doubtful and everything refused goes the long way, through the application. Both ways give the same answer, byte for
byte: they share every function from the image to the response.

The event loop's code runs on cold caches beside the inference, two to three times as slow as alone; a plain request
needs a fraction of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from nonneg_client.errors import NonnegError
from nonneg_server.answers.negotiation import form_for
from nonneg_server.embedding import Answer, fails, gathered, lengths_of, shortened
from nonneg_server.engine.engine import Encoded, Engine, too_late
from nonneg_server.engine.pool import Patient
from nonneg_server.entrance.envelope import GONE, Observer, Seen, internal, request_id_of
from nonneg_server.entrance.failures import logged
from nonneg_server.entrance.whole import Written, whole, written
from nonneg_server.requests.images import Limits
from nonneg_server.requests.native import is_image, media_of, query_parameters
from nonneg_server.requests.parameters import Parameters
from nonneg_server.serving import stamps, zeros_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from nonneg_server.registry import Registry

logger = logging.getLogger("nonneg")
PATH = "/embed"
TOGETHER = 16  # requests that are counted in one go
_SAYS_MORE = frozenset({b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"x-request-timeout"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a head asks for, understood once."""

    scope: Scope
    parameters: Parameters
    form: ModuleType
    media_type: bytes  # of the answer
    fail: bool  # whether a bad image fails the request
    longest: int  # bytes of a body that is taken


class Speaker(Protocol):
    """A connection, as an errand knows it: on the loop, but for `say`."""

    @property
    def keep_alive(self) -> bool: ...

    def say(self, errand: Errand, content: bytes) -> None:
        """From any thread: send the answer."""

    def over(self, errand: Errand) -> None:
        """The errand was answered, and counted."""


class Errand(Patient):
    """One plain request under way: for the pool a promise like another. Who claims it gives its answer."""

    __slots__ = (
        "_claim", "after", "answer", "began", "closing", "content", "direct", "due", "engine", "handed_out", "lane",
        "outcome", "plan", "request_id", "said", "seconds", "size", "speaker", "started", "status", "told", "zeros",
    )  # fmt: skip

    def __init__(self, lane: Express, plan: Plan, engine: Engine, size: int, speaker: Speaker) -> None:
        self.lane, self.plan, self.engine, self.size, self.speaker = lane, plan, engine, size, speaker
        self.request_id = request_id_of(plan.scope)
        self.began, self.started = time.time(), time.perf_counter()
        self.due = None if engine.timeout is None else time.monotonic() + engine.timeout
        self.status, self.seconds = 0, 0.0
        self.outcome: Encoded | NonnegError | None = None
        self.answer: Answer | None = None
        self.zeros = 0
        self.content = b""
        self.closing = False  # whether the answer says that the connection ends with it
        self.direct = False  # whether its thread may send it
        self.after: Errand | None = None  # whose answer has to be sent before
        self.handed_out = False  # whether all is done but to send it
        self.said = False  # whether the answer was handed on to the last byte
        self.told = False  # whether that took the loop
        self._claim = threading.Lock()

    @property
    def late(self) -> bool:
        return self.due is not None and time.monotonic() > self.due

    @property
    def open(self) -> bool:
        """Whether nobody has claimed it yet."""
        return not self._claim.locked()

    def claim(self) -> bool:
        return self._claim.acquire(blocking=False)

    def set_running_or_notify_cancel(self) -> bool:
        if self.late:
            self.set_exception(too_late())
            self.hand_out()
        return self.open

    def set_result(self, encoded: Encoded, /) -> None:
        self._answered(encoded)

    def set_exception(self, error: BaseException, /) -> None:
        if not isinstance(error, NonnegError):
            logger.error("request %s to %s failed", self.request_id, PATH, exc_info=error)
            error = internal()
        self._answered(error)

    def cancel(self) -> bool:
        return self.claim()

    def _answered(self, outcome: Encoded | NonnegError) -> None:
        """On a worker thread, or on the loop if it is late: the answer is written, and sent by whoever claims it."""
        answer = self._response(outcome)
        if not self.claim():
            return
        self.outcome, self.status, self.closing = outcome, answer.status, not self.speaker.keep_alive
        self.seconds = time.perf_counter() - self.started
        self.content = whole(answer, self.request_id, self.seconds, keep_alive=not self.closing)

    def hand_out(self) -> None:
        """Send the answer, if it is this thread's to send."""
        content, self.content = self.content, b""
        if content:
            self.handed_out = True
            self.lane.finished.append(self)  # before it is sent: who asks again at once finds this one counted
            self.speaker.say(self, content)

    def _response(self, outcome: Encoded | NonnegError) -> Written:
        try:
            return self._written(outcome)
        except NonnegError as error:
            return written(logged(error, self.request_id, PATH))
        except Exception:
            logger.exception("request %s to %s failed", self.request_id, PATH)
            return written(logged(internal(), self.request_id, PATH))

    def _written(self, outcome: Encoded | NonnegError) -> Written:
        """The long way's answer, by the long way's functions; only the framework's response is left out."""
        plan, manifest = self.plan, self.engine.bundle.manifest
        raw = gathered([outcome], manifest.dimensions, fail=plan.fail)
        self.answer = answer = shortened(manifest, raw, plan.parameters)
        self.zeros = zeros_of(answer)
        body: bytes = plan.form.write(answer)
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", plan.media_type), *stamps(answer)]
        return Written(200, headers, body)


class Express:
    """All plain requests of a server. Its methods are called on the loop."""

    def __init__(
        self,
        registry: Registry,
        may_ask: Callable[[Scope], bool],
        observers: Sequence[Observer],
        *,
        limits: Limits,
        max_body: int,
    ) -> None:
        self.finished: deque[Errand] = deque()  # answered by their threads, not yet counted
        self.answered = 0
        self._under_way: dict[Errand, None] = {}  # the oldest first
        self._registry = registry
        self._may_ask = may_ask
        self._observers = observers
        self._longest = min(limits.bytes, max_body)

    def plan(self, scope: Scope) -> Plan | None:
        """What this head asks for; None if it has to go the long way each time."""
        if scope["method"] != "POST" or scope["path"] != PATH:
            return None
        headers = dict(scope["headers"])
        if not _SAYS_MORE.isdisjoint(headers):
            return None
        media = media_of(headers.get(b"content-type", b"").decode("latin-1"))
        if scope["http_version"] != "1.1" or not is_image(media):
            return None
        accept = headers.get(b"accept")
        try:
            form = form_for(None if accept is None else accept.decode("latin-1"))
            parameters = query_parameters(scope["query_string"], Parameters)
            form.check(parameters)
        except NonnegError:
            return None
        known: Scope = {**scope, "state": {"route": PATH}}
        if not self._may_ask(known):
            return None
        return Plan(known, parameters, form, form.MEDIA_TYPE.encode(), fails(parameters, 1), self._longest)

    def begin(self, plan: Plan, body: bytes, speaker: Speaker) -> Errand | None:
        """Queue it; None if the long way has something to say about it."""
        try:
            engine = self._registry.get(plan.parameters.model)
            lengths_of(plan.parameters, engine.bundle.manifest.dimensions)
            errand = Errand(self, plan, engine, len(body), speaker)
            engine.admission.recount = self.settle
            if not engine.begin(body, errand):
                return None
        except NonnegError:
            return None
        self._under_way[errand] = None
        return errand

    def settle(self) -> None:
        """Count what was answered meanwhile."""
        while self.finished:
            errand = self.finished.popleft()
            self.answered += 1
            self._end(errand)
            errand.speaker.over(errand)

    def settle_some(self) -> None:
        """Count if it is worth while: several, or all that there are."""
        finished = len(self.finished)
        if finished >= TOGETHER or (finished and finished == len(self._under_way)):
            self.settle()

    def tick(self) -> None:
        """Now and then, also when nobody asks anything."""
        for engine in self._registry.all():
            engine.hand_over()
        self.settle()
        self._expire()

    def abandon(self, errand: Errand) -> None:
        """The client is gone: the work is dropped, if it has not begun."""
        if errand.claim():
            errand.engine.withdraw(errand)
            errand.status, errand.seconds = GONE, time.perf_counter() - errand.started
            self._end(errand)

    def _expire(self) -> None:
        """Answer those whose deadline has passed while they wait or are worked for."""
        while (oldest := next(iter(self._under_way), None)) is not None and oldest.late and oldest.open:
            oldest.set_exception(too_late())
            oldest.hand_out()
            oldest.engine.withdraw(oldest)
            self.settle()

    def _end(self, errand: Errand) -> None:
        del self._under_way[errand]
        engine, answer = errand.engine, errand.answer
        engine.end(errand.size, errand.outcome)
        engine.ledger.zero_vectors += errand.zeros
        state = {**errand.plan.scope["state"], "request_id": errand.request_id, "answer": answer}
        seen = Seen({**errand.plan.scope, "state": state}, errand.status, errand.began, errand.seconds)
        for observe in self._observers:
            observe(seen)
