"""The least that a server in Python can be: what it does not reach, a framework can hardly reach.

As many threads as cores share one poll: the thread that reads a request embeds its image. No HTTP but a head's
length, no parameters, no queue, nothing counted, nothing refused.
"""

from __future__ import annotations

import re
import select
import socket
import threading

import numpy as np
from model import CORES, PORT, Model

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
ONCE = select.EPOLLIN | select.EPOLLONESHOT  # one thread gets the event, and no other until it is armed again


class Bare:
    """A model, and the connections that ask it."""

    def __init__(self) -> None:
        self.model = Model()
        size = self.model.view.size
        self.model.session.run(np.zeros((1, size, size, 3), np.uint8))
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
        body = self.model.embed(request[end + 4 :])
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def serve(self) -> None:
        listener = socket.create_server(("127.0.0.1", PORT), backlog=1024)
        for _ in range(CORES):
            threading.Thread(target=self.work, daemon=True).start()
        while True:
            made = listener.accept()[0]
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open[made.fileno()] = made
            self.heard.pop(made.fileno(), None)
            self.epoll.register(made, ONCE)


if __name__ == "__main__":
    Bare().serve()
