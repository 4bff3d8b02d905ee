"""The least that a server in Python can be: what it does not reach, no answer of ours is to blame for.

As many threads as cores share one poll; whoever hears a request decodes, runs and answers the vector's bytes. No HTTP
but a head's length, no parameters, no queue, no JSON, nothing counted, nobody refused.

PORT=9000 NONNEG_MODEL=BUNDLE python bare.py
"""

from __future__ import annotations

import os
import re
import select
import socket
import threading
from pathlib import Path

import numpy as np

from nonneg_client.pixels.decode import decode
from nonneg_export.bundle import open_bundle
from nonneg_export.runtime import Session

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
ONCE = select.EPOLLIN | select.EPOLLONESHOT  # one thread hears it, and nobody else until it is armed again


class Bare:
    """A model, and the connections that ask it."""

    def __init__(self, bundle: Path) -> None:
        found = open_bundle(bundle)
        self.view, self.session = found.manifest.view, Session(found.encoder, threads=1)
        self.session.run(np.zeros((1, self.view.size, self.view.size, 3), np.uint8))
        self.epoll = select.epoll()
        self.open: dict[int, socket.socket] = {}
        self.heard: dict[int, bytes] = {}  # of requests that are not whole

    def work(self) -> None:
        while True:
            for number, _ in self.epoll.poll(maxevents=1):
                try:
                    self.hear(number)
                    self.epoll.modify(number, ONCE)
                except OSError:
                    self.open.pop(number).close()

    def hear(self, number: int) -> None:
        connection = self.open[number]
        data = connection.recv(1 << 20)
        if not data:
            raise ConnectionResetError
        request = self.heard.pop(number, b"") + data
        end = request.find(b"\r\n\r\n")
        length = LENGTH.search(request, 0, max(0, end)) if end >= 0 else None
        if length is None or len(request) < end + 4 + int(length[1]):
            self.heard[number] = request
            return
        vector = self.session.run(self.view.apply(decode(request[end + 4 :], at_least=self.view.ample))[None])[0]
        body = vector.tobytes()
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def serve(self, port: int) -> None:
        listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        for _ in os.sched_getaffinity(0):
            threading.Thread(target=self.work, daemon=True).start()
        while True:
            made = listener.accept()[0]
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open[made.fileno()] = made
            self.heard.pop(made.fileno(), None)
            self.epoll.register(made, ONCE)


if __name__ == "__main__":
    Bare(Path(os.environ["NONNEG_MODEL"])).serve(int(os.environ["PORT"]))
