"""Somebody at the door while models load for longer than a moment: the process is alive, and not ready yet.

What a thread can do beside the loading, and nothing that a small model would wait for: it is ready before.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonneg_server.settings import Settings

PATIENCE = 1.0  # seconds that who has knocked is left waiting: then the server itself is usually there
LONGEST = 2.0  # seconds for one client
MOST = 64  # clients at once: the files that may be open are for the models
BACKLOG = 2048
ALIVE = frozenset({"/livez", "/v2/health/live"})


@contextmanager
def at_the_door(listener: socket.socket, settings: Settings) -> Iterator[None]:
    """Answer those who come while the block lasts; who comes as it ends is the server's."""
    over, gone = threading.Event(), threading.Event()

    def stand() -> None:
        try:
            if not over.wait(PATIENCE):
                with suppress(OSError):  # a certificate that is no good, say: the server tells
                    asyncio.run(_receive(listener.dup(), settings, over, gone))
        finally:
            gone.set()

    threading.Thread(target=stand, name="porter", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        gone.wait(LONGEST)


async def _receive(door: socket.socket, settings: Settings, over: threading.Event, gone: threading.Event) -> None:
    tls, inside = None, set[asyncio.StreamWriter]()
    if settings.tls_cert is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(settings.tls_cert, settings.tls_key, password="")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside.add(writer)
        try:
            async with asyncio.timeout(LONGEST):
                if len(inside) <= MOST:
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_answer(head, writer.get_extra_info("peername"), log=settings.access_log))
                    while await reader.read(2**16):  # a body, which nobody wants: its sender shall read the answer
                        pass
        except (OSError, EOFError, asyncio.LimitOverrunError):  # gone, or late, or no HTTP
            pass
        finally:
            inside.discard(writer)
            writer.close()

    handshake = None if tls is None else LONGEST
    server = await asyncio.start_server(answer, sock=door, ssl=tls, ssl_handshake_timeout=handshake, backlog=MOST)
    door.listen(BACKLOG)  # asyncio has cut the queue of those who knock to as many as it lets in at once
    while not over.is_set():
        await asyncio.sleep(0.01)
    with suppress(NotImplementedError):  # Windows; elsewhere, who was let in last is heard before the door is closed
        asyncio.get_running_loop().remove_reader(door)
    gone.set()
    await asyncio.sleep(0.05)
    server.close()
    while inside:
        await asyncio.sleep(0.01)


def _answer(head: bytes, client: Any, *, log: bool) -> bytes:
    """200 for who asks whether it lives, 503 for everybody else."""
    # imported when somebody is at the door: it takes longer than to open a small model
    from nonneg_core.errors import NotReady
    from nonneg_server.http.context import Seen, request_id_of
    from nonneg_server.http.refusals import refusal
    from nonneg_server.http.serialize import Written, whole
    from nonneg_server.observation.logs import log_access

    first, *lines = head[:-4].split(b"\r\n")
    method, _, target = first.decode("latin-1").partition(" ")
    path = target.partition(" ")[0].partition("?")[0]
    named = (line.partition(b":") for line in lines)
    scope: Any = {
        "headers": [(name.lower(), value.strip()) for name, _, value in named],
        "client": client,
        "path": path,
    }
    request_id = request_id_of(scope)
    scope |= {"method": method if method.isalpha() else "-", "state": {"request_id": request_id}}
    if path in ALIVE:
        body = b'{"status":"alive"}'
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        status, answer = 200, whole(Written(200, headers, body), request_id, 0.0, keep_alive=False)
        scope["state"]["route"] = path
    else:
        error = NotReady("the models are loading", fix="wait for /readyz", retry_after=1)
        status, answer = error.status, refusal(error, scope, 0.0)
    if log:
        log_access(Seen(scope, status, 0.0, 0.0))
    return answer if method != "HEAD" else answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
