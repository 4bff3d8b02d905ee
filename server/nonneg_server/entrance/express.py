"""Plain requests without a task: heard on the loop, encoded and answered by one thread from end to end.

A request is plain if it is one image in a bare body, and its connection has asked the same thing before: then all
that it says is known, and nothing has to be awaited between its last byte and its answer. Everything else, everything
doubtful and everything refused goes the long way, through the application. Both ways give the same answer, byte for
byte: they share every function from the image to the response.

The event loop's code runs on cold caches beside the inference, two to three times as slow as alone; a plain request
needs a fraction of it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nonneg_core.errors import NonnegError
from nonneg_server.answers.negotiation import form_for
from nonneg_server.embedding import fails, lengths_of
from nonneg_server.engine.encoded import too_late
from nonneg_server.entrance.envelope import GONE, Observer, Seen
from nonneg_server.entrance.errand import PATH, Errand, Plan, Speaker
from nonneg_server.requests.images import Limits
from nonneg_server.requests.native import is_image, media_of, query_parameters
from nonneg_server.requests.parameters import Parameters

if TYPE_CHECKING:
    from starlette.types import Scope

    from nonneg_server.registry import Registry

TOGETHER = 16  # requests that are counted in one go
_SAYS_MORE = frozenset({b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"x-request-timeout"})


class Express:
    """All plain requests of a server. Its methods are called on the loop."""

    def __init__(
        self,
        registry: Registry,
        may_ask: Callable[[Scope], bool],
        observers: Sequence[Observer],
        *,
        edition: Callable[[], int],
        limits: Limits,
        max_body: int,
    ) -> None:
        self.finished: deque[Errand] = deque()  # answered by their threads, not yet counted
        self.answered = 0
        self._under_way: dict[Errand, None] = {}  # the oldest first
        self._registry = registry
        self._may_ask = may_ask
        self._observers = observers
        self._edition = edition
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
        return Plan(
            known, parameters, form, form.MEDIA_TYPE.encode(), fails(parameters, 1), self._longest, self._edition()
        )

    def begin(self, plan: Plan, scope: Scope, body: bytes, speaker: Speaker) -> Errand | None:
        """Queue it; None if the long way has something to say about it. The scope asks for what the plan's does."""
        if plan.edition != self._edition():  # the key that was known then may have been withdrawn
            return None
        try:
            engine = self._registry.get(plan.parameters.model)
            lengths_of(plan.parameters, engine.bundle.manifest.dimensions)
            errand = Errand(self.finished, plan, scope, engine, len(body), speaker)
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

    def abandon(self, errand: Errand, status: int = GONE) -> None:
        """The client is gone, or was refused by the protocol: the work is dropped, if it has not begun."""
        if errand.claim():
            errand.engine.withdraw(errand)
            errand.status, errand.seconds = status, time.perf_counter() - errand.started
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
        state = {**errand.scope["state"], "request_id": errand.request_id, "answer": answer}
        seen = Seen({**errand.scope, "state": state}, errand.status, errand.began, errand.seconds)
        for observe in self._observers:
            observe(seen)
