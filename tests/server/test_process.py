"""Real processes: drained under load, besieged by clients who do not finish, and dying when their threads die."""

import json
import os
import resource
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = pytest.mark.slow
Png = Callable[[int], bytes]
HEAD = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"


def open_socket(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def rest_of(connection: socket.socket) -> bytes:
    """All that the server still says, until it closes."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


class Clients:
    """Threads that ask without pause; what they saw is counted."""

    def __init__(self, address: str, body: bytes, count: int = 6) -> None:
        parts = urlsplit(address)
        self.place, self.body = (parts.hostname or "", parts.port), body
        self.answered, self.lost, self.stop = 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self) -> None:
        connection = HTTPConnection(*self.place, timeout=20)
        while not self.stop.is_set():
            try:
                if connection.sock is None:
                    connection.connect()
            except OSError:  # it listens no more: nothing was sent, nothing is lost
                return
            try:
                connection.request("POST", "/embed", self.body, {"Content-Type": "image/png"})
                response: HTTPResponse = connection.getresponse()
                body = response.read()
                if response.status == 200 and json.loads(body)["data"][0]["nnz"]:
                    self.answered += 1
                else:
                    self.lost.append(body)
            except Exception as error:
                self.lost.append(error)
                return

    def join(self) -> None:
        for thread in self.threads:
            thread.join(30)


def awaited(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether it came true in time: machines are busy at times, and a fixed sleep is then too short."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return False


def connections(address: str) -> float:
    """How many are open, the one that asks for it included."""
    return float(httpx.get(f"{address}/metrics").text.partition("\nnonneg_connections ")[2].partition("\n")[0])


def refuses_connections(address: str) -> bool:
    try:
        open_socket(address).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: made as the listener was closing
        return True
    return False


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux only")
def test_the_loop_gives_way_and_the_threads_that_compute_do_not(start: Callable, bundle: Bundle, png: Png) -> None:
    with start("--model", str(bundle.path), "--drain", "0") as (address, process):
        assert httpx.post(f"{address}/embed", content=png(1)).status_code == 200
        tasks = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        policies = {task: os.sched_getscheduler(task) for task in tasks}
    assert policies.pop(process.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_BATCH
    assert policies
    assert set(policies.values()) == {os.SCHED_OTHER}


def test_sigterm_under_load_loses_nothing_and_exits_with_0(start: Callable, bundle: Bundle, png: Png) -> None:
    with start("--model", str(bundle.path), "--drain", "1.5") as (address, process), httpx.Client() as client:
        clients = Clients(address, png(0))
        assert awaited(lambda: clients.answered > 50)
        assert client.get(f"{address}/readyz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert awaited(lambda: client.get(f"{address}/readyz").status_code == 503, 1.2)
        assert "shutting down" in client.get(f"{address}/readyz").text
        assert client.get(f"{address}/livez").status_code == 200
        before = clients.answered
        assert awaited(lambda: clients.answered > before), "who asks while it drains is answered"
        clients.join()
        assert process.wait(30) == 0
        assert clients.lost == []
        assert process.stderr.read() == ""


def test_who_is_let_in_last_is_still_heard(start: Callable, bundle: Bundle, png: Png) -> None:
    """A client that has connected and is slow to speak, as the process stops listening."""
    with start("--model", str(bundle.path), "--drain", "0") as (address, process):
        assert httpx.get(f"{address}/livez").status_code == 200
        with open_socket(address) as late:
            assert awaited(lambda: connections(address) >= 2)
            process.send_signal(signal.SIGTERM)
            assert awaited(lambda: refuses_connections(address))
            late.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(png(0)) + png(0))
            assert rest_of(late).startswith(b"HTTP/1.1 200 ")
        assert process.wait(20) == 0


def test_a_request_in_flight_is_answered_after_sigterm(start: Callable, bundle: Bundle, png: Png) -> None:
    body = png(0)
    with start("--model", str(bundle.path), "--drain", "0") as (address, process):
        with open_socket(address) as slow:
            slow.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:50])
            assert awaited(lambda: "\nnonneg_upload_bytes 50.0\n" in httpx.get(f"{address}/metrics").text)
            process.send_signal(signal.SIGTERM)
            assert awaited(lambda: refuses_connections(address))
            slow.sendall(body[50:])
            answer = rest_of(slow)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        assert process.wait(20) == 0


def test_a_thousand_clients_that_never_finish_are_closed_and_others_served(
    start: Callable, bundle: Bundle, png: Png
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))  # the server inherits it
    with start("--model", str(bundle.path), "--read-timeout", "1.5", "--drain", "0") as (address, _):
        loris = [open_socket(address) for _ in range(1000)]
        for number, connection in enumerate(loris):
            connection.sendall((b"", HEAD, HEAD + b"Content-Length: 999\r\n\r\nhalf")[number % 3])
        for number in range(5):
            assert httpx.post(f"{address}/embed", content=png(number)).status_code == 200
        answers = [rest_of(connection) for connection in loris]
        assert {answer[:12] for answer in answers} == {b"HTTP/1.1 408"}
        body = json.loads(answers[2].partition(b"\r\n\r\n")[2])
        assert body["error"]["type"] == "request_timeout"
        assert body["error"]["limit"] == 1.5
        for connection in loris:
            connection.close()
        assert httpx.post(f"{address}/embed", content=png(9)).status_code == 200


def test_an_upload_that_trickles_for_ever_ends_too(start: Callable, bundle: Bundle) -> None:
    with (
        start("--model", str(bundle.path), "--receive-timeout", "1", "--drain", "0") as (address, _),
        open_socket(address) as trickle,
    ):
        trickle.sendall(HEAD + b"Content-Length: 100000\r\n\r\n")
        until = time.monotonic() + 2.2
        while time.monotonic() < until and not select.select([trickle], [], [], 0.1)[0]:
            trickle.sendall(b"x")
        answer = rest_of(trickle)
        assert b" 408 " in answer[:15]
        assert b"longer than 1 s" in answer


def test_clients_who_go_away_leave_no_trace(start: Callable, bundle: Bundle, png: Png) -> None:
    with start("--model", str(bundle.path), "--drain", "0") as (address, process):
        for number in range(60):
            body = png(number)
            with open_socket(address) as gone:
                sent = body[: len(body) // 2] if number % 2 else body
                gone.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + sent)
        assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


NO_HTTP = [
    b"\x16\x03\x01\x02\x00\x01\x00",  # TLS, spoken to a port without
    b"GET / HTTP/9.9\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    HEAD + b"Bad Header\0: x\r\n\r\n",
    HEAD + b"Content-Length: 5\r\n\r\nhelloGARBAGE\0 \r\n\r\n",  # behind a request that is being answered
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


def test_what_is_not_http_is_refused_in_json_and_leaves_no_trace_in_the_log(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), "--drain", "0") as (address, process):
        for sent in NO_HTTP * 5:
            with open_socket(address) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                answer = rest_of(connection)
            if answer and not answer.startswith(b"HTTP/1.1 415"):
                assert answer.startswith(b"HTTP/1.1 400"), (sent, answer)
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["field"] == "request"
        for _ in range(60):  # two requests at once, and away: sooner or later between an answer and its sending
            with open_socket(address) as connection:
                connection.sendall((HEAD + b"Content-Length: 5\r\n\r\nhello") * 3)
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}
        assert httpx.get(f"{address}/livez", headers=upgrade).status_code == 200
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_connections_beyond_the_limit_are_refused_with_503(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), "--max-connections", "20", "--drain", "0") as (address, _):
        held = [open_socket(address) for _ in range(20)]
        for connection in held:  # each is in, before the next one comes
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        with open_socket(address) as one_more:
            answer = rest_of(one_more)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b'"type":"not_ready"' in answer
        for connection in held:
            connection.close()
        assert awaited(lambda: httpx.get(f"{address}/livez").status_code == 200)


def test_the_bytes_of_all_uploads_are_bounded(start: Callable, bundle: Bundle, png: Png) -> None:
    with start("--model", str(bundle.path), "--upload-bytes", "200000", "--drain", "0") as (address, _):
        held = [open_socket(address) for _ in range(3)]
        for connection in held[:2]:
            connection.sendall(HEAD + b"Content-Length: 90000\r\n\r\n" + bytes(89_000))
        assert awaited(lambda: "\nnonneg_upload_bytes 178000.0\n" in httpx.get(f"{address}/metrics").text)
        held[2].sendall(HEAD + b"Content-Length: 90000\r\n\r\n" + bytes(89_000))
        answer = rest_of(held[2])
        assert b" 429 " in answer[:15]
        assert b"retry-after: 1" in answer
        for connection in held:
            connection.close()
        assert awaited(lambda: httpx.post(f"{address}/embed", content=png(1)).status_code == 200)


@pytest.mark.parametrize("wait", [0.0, 0.01, 0.03])
def test_a_stop_while_the_session_for_lone_images_opens_is_clean(start: Callable, png: Png, wait: float) -> None:
    with start("--drain", "0") as (address, process):
        assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
        time.sleep(wait)
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


LAST_WORDS = """
from nonneg_server.startup import server_process
server_process.AFTER_FAILURE, server_process.GONE = 3.0, 6.0  # time to be asked, where other work has the cores
"""
DYING = f"""{LAST_WORDS}
import signal, sys
from nonneg_cli.table import main
from nonneg_server.startup import serve_command

original = serve_command.repository_of

def repository_of(*given, **named):
    repository = original(*given, **named)
    pool = repository.registry.workers.pool
    signal.signal(signal.SIGUSR1, lambda *_: pool.submit(lambda: sys.exit("torn down")))
    return repository

serve_command.repository_of = repository_of
main()
"""


def test_a_dead_worker_thread_fails_livez_and_ends_the_process(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    script = tmp_path / "dying.py"
    script.write_text(DYING)
    with start("--model", str(bundle.path), command=(str(script),)) as (address, process):
        assert httpx.get(f"{address}/livez").status_code == 200
        process.send_signal(signal.SIGUSR1)
        assert (503, "a worker thread died") in last_words(address, "a worker thread died")
        assert process.wait(30) == 1
        errors = process.stderr.read()
        assert "a worker thread died" in errors
        assert "Error:" in errors


def last_words(address: str, reason: str) -> set[tuple[int, str]]:
    """What /livez answers until the server is gone."""
    seen = set()
    with httpx.Client() as client:
        while True:
            try:
                found = client.get(f"{address}/livez")
            except httpx.TransportError:
                return seen
            seen.add((found.status_code, reason if reason in found.text else ""))
            time.sleep(0.02)


FAILING = f"""{LAST_WORDS}
import signal
from nonneg_cli.table import main
from nonneg_runtime.inference.onnx_session import Session

def broken(self, pixels):
    raise RuntimeError("the device is gone")

def fail(*_):
    Session.run = broken

signal.signal(signal.SIGUSR1, fail)
main()
"""


def test_a_runtime_that_fails_for_good_fails_livez_and_ends_the_process(
    start: Callable, bundle: Bundle, png: Png, tmp_path: Path
) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    with start("--model", str(bundle.path), "--drain", "0", "--no-all-cores", command=(str(script),)) as (
        address,
        process,
    ):
        assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
        process.send_signal(signal.SIGUSR1)
        answers = [httpx.post(f"{address}/embed", content=png(number)) for number in range(3)]
        assert {answer.status_code for answer in answers} == {500}
        assert "device is gone" not in answers[0].text, "what is inside stays inside"
        assert (503, "3 times in a row") in last_words(address, "3 times in a row")
        assert process.wait(30) == 1
        assert "device is gone" in process.stderr.read(), "the log has the cause"
