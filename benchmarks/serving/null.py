"""A server that does nothing: it reads a request and answers the same bytes. What is left is the load generator's cost.

PORT=9000 python null.py
"""

from __future__ import annotations

import os
import select
import socket

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3600\r\n\r\n" + b"x" * 3600


class Peer:
    """One connection: how much of its present request is still to come."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.head = b""
        self.left = 0

    def heard(self, data: bytes) -> bool:
        """True when a request is whole."""
        if not self.left:
            self.head += data
            head, end, body = self.head.partition(b"\r\n\r\n")
            if not end:
                return False
            self.left, data, self.head = int(head.lower().rpartition(b"content-length:")[2].split()[0]), body, b""
        self.left -= len(data)
        return self.left <= 0


def serve(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    epoll, peers = select.epoll(), {}
    epoll.register(listener, select.EPOLLIN)
    while True:
        for number, _ in epoll.poll():
            if number == listener.fileno():
                made = listener.accept()[0]
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peers[made.fileno()] = Peer(made)
                epoll.register(made, select.EPOLLIN)
                continue
            peer = peers[number]
            try:
                data = peer.socket.recv(1 << 16)
                if data and peer.heard(data):
                    peer.socket.sendall(ANSWER)
            except OSError:
                data = b""
            if not data:
                del peers[number]
                peer.socket.close()


if __name__ == "__main__":
    serve(int(os.environ["PORT"]))
