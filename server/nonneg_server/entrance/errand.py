"""One plain request under way, from its last byte to its answer."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from nonneg_core.errors import NonnegError
from nonneg_server.embedding import Answer, gathered, shortened
from nonneg_server.engine.encoded import Encoded, too_late
from nonneg_server.engine.engine import Engine
from nonneg_server.engine.pool import Patient
from nonneg_server.entrance.envelope import internal, request_id_of
from nonneg_server.entrance.failures import logged
from nonneg_server.entrance.whole import Written, whole, written
from nonneg_server.requests.parameters import Parameters
from nonneg_server.serving import stamps, zeros_of

if TYPE_CHECKING:
    from starlette.types import Scope

logger = logging.getLogger("nonneg")
PATH = "/embed"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a head asks for, understood once."""

    scope: Scope
    parameters: Parameters
    form: ModuleType
    media_type: bytes  # of the answer
    fail: bool  # whether a bad image fails the request
    longest: int  # bytes of a body that is taken
    edition: int  # of the keys by which it may be asked


class Speaker(Protocol):
    """A connection, as an errand knows it: on the loop, but for `say`."""

    @property
    def keep_alive(self) -> bool: ...

    @property
    def say(self) -> Callable[[Errand, bytes], None]:
        """Sends the answer; to be called from any thread."""

    def over(self, errand: Errand) -> None:
        """The errand was answered, and counted."""


class Errand(Patient):
    """One plain request under way: for the pool a promise like another. Who claims it gives its answer."""

    __slots__ = (
        "_claim", "after", "answer", "began", "closing", "content", "direct", "due", "engine", "finished", "handed_out",
        "outcome", "plan", "request_id", "said", "scope", "seconds", "size", "speaker", "started", "status", "told",
        "zeros",
    )  # fmt: skip

    def __init__(
        self, finished: deque[Errand], plan: Plan, scope: Scope, engine: Engine, size: int, speaker: Speaker
    ) -> None:
        self.plan, self.scope, self.engine = plan, scope, engine
        self.size, self.speaker, self.finished = size, speaker, finished
        self.request_id = request_id_of(scope)
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
            self.finished.append(self)  # before it is sent: who asks again at once finds this one counted
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
