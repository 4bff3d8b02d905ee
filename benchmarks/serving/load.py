"""A load generator that costs little: one thread, epoll, requests made beforehand, answers barely parsed.

It shares the cores with what it measures, so that every microsecond of its own would be missing there.

    python load.py http://127.0.0.1:8000/embed --photos FOLDER --clients 8 --seconds 10     closed loop
    python load.py http://127.0.0.1:8000/embed --photos FOLDER --rate 900 --seconds 60      open loop

Closed loop: so many clients, each asks again when it is answered. Open loop: so many requests a second whatever the
server does, and the time counts from when a request was due, not from when it could be sent.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import socket
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from photos import make_photos

MOST_CONNECTIONS = 2000
PROXIED = "X-Forwarded-For: 192.0.2.{0}\r\nX-Request-Id: {0:032x}\r\nTraceparent: 00-{0:032x}-{0:016x}-01\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)\r\n", re.IGNORECASE)


@dataclass
class Tally:
    """What came back."""

    seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)  # of the answers with 200
    retry_after: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        good = sorted(self.latencies)
        return {
            "seconds": round(self.seconds, 3),
            "ok": len(good),
            "rate": round(len(good) / self.seconds, 2) if self.seconds else 0.0,
            "statuses": dict(self.statuses),
            **{f"p{q}_ms": round(1000 * good[min(len(good) - 1, len(good) * q // 100)], 2) for q in (50, 99) if good},
            **({"max_ms": round(1000 * good[-1], 2)} if good else {}),
            "retry_after_mean": round(sum(self.retry_after) / len(self.retry_after), 3) if self.retry_after else None,
        }


class Connection:
    """One keep-alive connection that carries one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.rest = memoryview(b"")
        self.received = b""
        self.expected = -1
        self.due = 0.0

    def ask(self, request: bytes, due: float) -> None:
        self.rest, self.due, self.expected, self.received = memoryview(request), due, -1, b""
        self.send()

    def send(self) -> None:
        while self.rest:
            try:
                self.rest = self.rest[self.socket.send(self.rest) :]
            except BlockingIOError:
                return

    def receive(self) -> bool:
        """True when the answer is complete."""
        try:
            data = self.socket.recv(1 << 16)  # a larger buffer would be mapped and unmapped for every answer
        except BlockingIOError:
            return False
        if not data:
            raise ConnectionResetError("closed by the server")
        self.received = self.received + data if self.received else data  # most answers come in one piece
        if self.expected < 0:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return False
            length = LENGTH.search(self.received, 0, end + 2)
            if length is None:
                raise ValueError("an answer without content-length")
            self.expected = end + 4 + int(length[1])
        return len(self.received) >= self.expected

    def header(self, name: bytes) -> bytes | None:
        head = self.received[: self.received.find(b"\r\n\r\n") + 2]
        start = head.lower().find(b"\r\n" + name + b":")
        if start < 0:
            return None
        start += len(name) + 3
        return bytes(head[start : head.find(b"\r\n", start)]).strip()

    @property
    def status(self) -> str:
        return self.received[9:12].decode()


class Load:
    """Connections, the requests they carry, and the tally of the answers."""

    def __init__(self, url: str, bodies: list[bytes], headers: dict[str, str], *, proxied: bool = False) -> None:
        parts = urlsplit(url)
        self.address = (parts.hostname or "127.0.0.1", parts.port or 80)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        first = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{lines}"
        self.requests = [
            f"{first}{PROXIED.format(i) if proxied else ''}Content-Length: {len(body)}\r\n\r\n".encode() + body
            for i, body in enumerate(bodies)
        ]
        self.turn = 0
        self.epoll = select.epoll()
        self.open: dict[int, Connection] = {}
        self.tally = Tally()

    def next_request(self) -> bytes:
        self.turn = (self.turn + 1) % len(self.requests)
        return self.requests[self.turn]

    def connect(self) -> Connection:
        made = Connection(self.address)
        self.open[made.socket.fileno()] = made
        self.epoll.register(made.socket, select.EPOLLIN)
        return made

    def ask(self, connection: Connection, due: float) -> None:
        connection.ask(self.next_request(), due)
        if connection.rest:
            self.epoll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    def answered(self, timeout: float) -> list[Connection]:
        """Move bytes; return the connections whose answer is complete."""
        done = []
        for number, event in self.epoll.poll(timeout):
            connection = self.open[number]
            try:
                if event & select.EPOLLOUT:
                    connection.send()
                    if not connection.rest:
                        self.epoll.modify(connection.socket, select.EPOLLIN)
                if event & ~select.EPOLLOUT and connection.receive():
                    self._count(connection)
                    done.append(connection)
            except (OSError, ValueError) as error:
                self.tally.statuses[type(error).__name__] += 1
                self.epoll.unregister(connection.socket)
                del self.open[number]
                connection.socket.close()
        return done

    def _count(self, connection: Connection) -> None:
        status = connection.status
        self.tally.statuses[status] += 1
        if status == "200":
            self.tally.latencies.append(time.perf_counter() - connection.due)
        elif wait := connection.header(b"retry-after"):
            self.tally.retry_after.append(float(wait))


def closed_loop(load: Load, clients: int, seconds: float) -> Tally:
    """Load a server by `clients` connections, each with one request under way at any time."""
    idle = [load.connect() for _ in range(clients)]
    start = time.perf_counter()
    end = start + seconds
    while (now := time.perf_counter()) < end:
        for connection in idle:
            load.ask(connection, now)
        idle = load.answered(1.0)
        while len(load.open) < clients:
            idle.append(load.connect())
    load.tally.seconds = time.perf_counter() - start
    return load.tally


def open_loop(load: Load, rate: float, seconds: float) -> Tally:
    """Send a request every 1/rate seconds, on an idle connection or a new one."""
    idle: deque[Connection] = deque()
    start = time.perf_counter()
    asked = 0
    while (now := time.perf_counter()) < start + seconds or len(idle) < len(load.open):
        while now < start + seconds and start + asked / rate <= now:
            due = start + asked / rate
            asked += 1
            if idle:
                load.ask(idle.popleft(), due)
            elif len(load.open) < MOST_CONNECTIONS:
                load.ask(load.connect(), due)
            else:
                load.tally.statuses["no connection left"] += 1
        if now > start + seconds + 60:
            load.tally.statuses["unanswered after 60 s"] += len(load.open) - len(idle)
            break
        idle.extend(load.answered(max(0.0, min(0.05, start + asked / rate - time.perf_counter()))))
    load.tally.seconds = seconds
    return load.tally


def run(
    url: str,
    bodies: list[bytes],
    *,
    seconds: float,
    clients: int = 8,
    rate: float | None = None,
    headers: dict[str, str] | None = None,
    proxied: bool = False,
) -> dict[str, Any]:
    load = Load(url, bodies, {"Content-Type": "image/jpeg", **(headers or {})}, proxied=proxied)
    tally = closed_loop(load, clients, seconds) if rate is None else open_loop(load, rate, seconds)
    for connection in load.open.values():
        connection.socket.close()
    return tally.summary()


def ask_once(url: str, body: bytes) -> str:
    """Return the status of one request on a connection of its own."""
    load = Load(url, [body], {"Content-Type": "image/jpeg"})
    connection = load.connect()
    load.ask(connection, time.perf_counter())
    end = time.perf_counter() + 30
    while load.open and time.perf_counter() < end:
        if load.answered(1.0):
            status = connection.status
            connection.socket.close()
            return status
    raise ConnectionResetError(f"no answer from {url}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--photos", type=Path, required=True, help="any folder of photos; a sample becomes JPEGs")
    parser.add_argument("--size", default="500x375", help="of the JPEGs")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=float, help="requests a second: open loop instead of clients")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE")
    parser.add_argument("--proxied", action="store_true", help="headers of each request's own, as proxies write them")
    given = parser.parse_args()
    headers = {name: value.strip() for name, _, value in (line.partition(":") for line in given.header)}
    width, height = map(int, given.size.split("x"))
    bodies = make_photos(given.photos, width=width, height=height)
    summary = run(
        given.url,
        bodies,
        seconds=given.seconds,
        clients=given.clients,
        rate=given.rate,
        headers=headers,
        proxied=given.proxied,
    )
    json.dump(summary, sys.stdout)
    print()


if __name__ == "__main__":
    main()
