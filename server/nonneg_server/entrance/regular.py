"""A client that asks the same again: recognised by its request's head, heard and answered without the application."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from nonneg_core.errors import NonnegError
from nonneg_server.entrance.connections import Connection, House
from nonneg_server.entrance.envelope import GONE, request_id_of
from nonneg_server.entrance.errand import PATH, Errand, Plan
from nonneg_server.entrance.express import Express
from nonneg_server.entrance.heads import Head, head_of
from nonneg_server.entrance.voice import Voice

if TYPE_CHECKING:
    from starlette.types import Scope

MOST_LATER = 2**16  # bytes that are taken of what a client sends before it has its answer


class Regular(Connection):
    """One client of a server that has an express lane."""

    lane: Express
    _between = True  # whether the parser stands between two requests
    _heads: Head | None = None  # the head that is being parsed, while it may be worth knowing again
    _known: tuple[Head, Plan] | None = None
    _errand: Errand | None = None
    _last: Errand | None = None  # answered; perhaps its answer is still being sent
    _start = 0  # where a plain request's body begins
    _missing = 0  # bytes of a plain request's body that are still to come
    _plain = False  # whether what is asked came by this lane
    _ends = False  # no request after the present one
    _resting: float | None = None  # since when nothing has been asked

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._present: Scope = {}  # what is asked now, if it is known
        self._parts: list[bytes] = []  # of a plain request, from its first byte on
        self._later: list[bytes] = []  # what came before the answer had gone
        self._voice = Voice(self.loop, transport, self._spoken)
        self.say = self._voice.say

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.house.handles += self._voice.fall_silent()
        self._last = None  # it knows this connection, and would keep it
        self._later.clear()
        self._parts.clear()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self.lane.settle_some()
        if self._errand is not None and self._errand.handed_out:
            self._past(self._errand)
        if self._errand is not None or self._later:
            self._wait(data)
            return
        if self._missing:
            self._heard = self.loop.time()
            self._collect(data)
            return
        found = self._recognised(data)
        if found is None:
            self._take_long_way(data)
        else:
            self._plain = True
            self._greet(data, *found)

    def on_message_begin(self) -> None:
        self._between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            self._heads = None
        super().on_headers_complete()
        heads, self._heads = self._heads, None
        if heads is None or self._passing or self._refused or not self.parser.should_keep_alive():
            return
        plan = self.lane.plan(self.scope)  # type: ignore[arg-type]
        if plan is not None:
            self._known = heads, plan

    def on_message_complete(self) -> None:
        self._between = True
        super().on_message_complete()

    def sweep(self, now: float) -> None:
        super().sweep(now)
        idle = self._resting is not None and now - self._resting > self.timeout_keep_alive
        if idle and self._errand is None and not self._arriving:
            self.transport.close()

    def shutdown(self) -> None:
        if self._errand is not None or self._missing:
            self._ends = True
        else:
            super().shutdown()

    def cut_off(self, error: NonnegError) -> None:
        if self._errand is None or self._errand.open:
            super().cut_off(error)
        else:  # a thread is just sending the answer
            self._hang_up()

    @property
    def keep_alive(self) -> bool:
        """Whether the next answer may promise that the connection stays."""
        return not (self._ends or self.house.draining)

    def over(self, errand: Errand) -> None:
        """The errand was answered, and counted."""
        if self._errand is errand:
            self._past(errand)

    def _past(self, errand: Errand) -> None:
        """The connection is free for the next request."""
        self._errand, self._last = None, errand
        self._release()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._resting = self.loop.time()
        if self._later:
            self.loop.call_soon(self._resume)

    def _recognised(self, data: bytes) -> tuple[int, int] | None:
        """Where the body begins and how long it is, of a request like the one before."""
        at_rest = self._between and (self.cycle is None or self.cycle.response_complete)
        if self._known is None or not at_rest or self.house.draining:
            return None
        head, plan = self._known
        found, self._present = head.read(data), plan.scope
        if found is None and (alike := head.read_core(data)) is not None:
            start, length, headers = alike
            found, self._present = (start, length), {**plan.scope, "headers": headers}
        return found if found is not None and 0 < found[1] <= plan.longest else None

    def _greet(self, data: bytes, start: int, length: int) -> None:
        """A plain request: all of it at once, or its beginning."""
        self._unset_keepalive_if_required()
        self._resting = None
        end = start + length
        if end == len(data):
            if not self._full():
                self._hold(length)
                self._begin([data], start)
        elif end < len(data):
            self._leave(data[end:])
            self._hold(length)
            self._begin([data[:end]], start)
        else:
            self._arriving, self._began = True, self.loop.time()
            self._heard = self._began
            self._missing, self._start = end, start
            self._collect(data)

    def _full(self) -> bool:
        """True if the queue is full and that was said, as the long way would say it."""
        gate, said = self.house.gate, self._last is None or self._last.said
        if gate is None or self._known is None or not said or not gate.shut(b"POST", PATH):
            return False
        scope = self._present
        answer = gate.refusal({**scope, "state": dict(scope["state"])}, keep_alive=True)
        if answer is None:
            return False
        self.transport.write(answer)
        self._resting = self.loop.time()
        return True

    def _collect(self, data: bytes) -> None:
        taken = data[: self._missing]
        self._parts.append(taken)
        self._missing -= len(taken)
        if len(data) > len(taken):
            self._leave(data[len(taken) :])
        self._hold(len(taken))
        if self._refused or self._missing:
            return
        self._arriving = False
        parts, self._parts = self._parts, []
        self._begin(parts, self._start)

    def _begin(self, parts: list[bytes], start: int) -> None:
        """The request is here, in pieces: its body, which may be megabytes, is copied but once."""
        if self._refused or self._known is None:
            return
        first, *rest = parts
        errand = self.lane.begin(self._known[1], self._present, b"".join((memoryview(first)[start:], *rest)), self)
        if errand is None:  # the application says why
            self._release()
            self._take_long_way(b"".join((*parts, *self._taken_up())))
            return
        last, self._last = self._last, None
        errand.after = None if last is None or last.said else last
        if self.scheme == "http" and self.house.handles > 0:
            self.house.handles -= self._voice.take_handle()
        errand.direct = not self.transport.get_write_buffer_size()
        self._errand = errand

    def _take_long_way(self, data: bytes) -> None:
        if self._last is not None and not self._last.said:
            self._wait(data)
            return
        self._last, self._resting, self._plain = None, None, False
        self._heads = head_of(data) if self._between else None
        super().data_received(data)

    def _wait(self, data: bytes) -> None:
        """Not before the answer to what was asked earlier has gone."""
        self._leave(data)
        if sum(map(len, self._later)) > MOST_LATER:
            self.flow.pause_reading()
        if self._errand is not None and self._errand.handed_out:
            self._past(self._errand)
        if self._errand is None and (self._last is None or self._last.said):
            self.loop.call_soon(self._resume)

    def _leave(self, data: bytes) -> None:
        self._later.append(data)
        self._voice.awaited = True

    def _taken_up(self) -> list[bytes]:
        later, self._later = self._later, []
        self._voice.awaited = False
        return later

    def _resume(self) -> None:
        """Hear what came too early."""
        if self._errand is not None or not self._later or self._refused or self.transport.is_closing():
            return
        self.flow.resume_reading()
        self.data_received(b"".join(self._taken_up()))

    def _hold(self, size: int) -> None:
        if self.house.held + size > self.house.most_bytes:
            self.lane.settle()
        super()._hold(size)

    def _in_work(self) -> bool:
        return self._errand is not None or super()._in_work()

    def _asked(self) -> tuple[Scope, float]:
        if self._known is None or not self._plain:
            return super()._asked()
        scope, errand = self._present, self._errand
        if errand is None:
            request_id, seconds = request_id_of(scope), self.loop.time() - self._began if self._arriving else 0.0
        else:
            request_id, seconds = errand.request_id, time.perf_counter() - errand.started
        return {**scope, "state": {**scope["state"], "request_id": request_id}}, seconds

    def _give_up(self, status: int = GONE) -> None:
        super()._give_up(status)
        self._missing = 0
        errand, self._errand = self._errand, None
        if errand is not None:
            self.lane.abandon(errand, status)

    def _spoken(self, errand: Errand) -> None:
        """On the loop: an answer has gone that somebody waited for."""
        self.lane.settle()
        if errand.closing:
            self.transport.close()
        elif self._later:
            self._resume()


def bound_to(house: House) -> type[Connection]:
    """The connection class of one server."""
    if house.express is None:
        return type("BoundConnection", (Connection,), {"house": house})
    return type("BoundConnection", (Regular,), {"house": house, "lane": house.express})
