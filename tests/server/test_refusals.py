"""What the protocol itself refuses has an id, a line in the log, and the shape of every other answer."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = pytest.mark.slow
Png = Callable[[int], bytes]
Popen = subprocess.Popen[str]
ID = re.compile("[0-9a-f]{32}")
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nX-Request-ID: %s\r\n"
LOGGED = ("--access-log", "--log-format", "json", "--drain", "0")
Answer = tuple[int, dict[str, str], dict]


def head(name: str, length: int, path: str = "/embed") -> bytes:
    return HEAD % (path.encode(), name.encode()) + b"Content-Length: %d\r\n\r\n" % length


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def parsed(top: bytes, body: bytes) -> Answer:
    first, *lines = top.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), json.loads(body)


def last_of(connection: socket.socket) -> Answer:
    """The answer with which the server hangs up."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    top, _, body = received.partition(b"\r\n\r\n")
    status, headers, said = parsed(top, body)
    assert headers["connection"] == "close"
    assert int(headers["content-length"]) == len(body)
    assert float(headers["x-total-time"]) >= 0
    assert said.get("request_id", headers["x-request-id"]) == headers["x-request-id"]
    return status, headers, said


def heard(connection: socket.socket) -> int:
    """The status of an answer after which the connection goes on."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    top, _, body = received.partition(b"\r\n\r\n")
    length = int(re.findall(rb"content-length: (\d+)", top)[0])
    while len(body) < length:
        body += connection.recv(65536)
    return int(top.split()[1])


def lines_of(process: Popen) -> dict[str, dict]:
    """The access log of a server that is told to end, by request id; none of them twice."""
    process.terminate()
    log = [json.loads(line) for line in process.communicate(timeout=20)[1].splitlines()]
    lines = [line for line in log if line["logger"] == "nonneg.access"]
    assert len({line["request_id"] for line in lines}) == len(lines)
    return {line["request_id"]: line for line in lines}


def of_line(line: dict) -> tuple[str, str, int]:
    assert line["client"] == "127.0.0.1"
    assert line["milliseconds"] >= 0
    return line["route"], line["method"], line["status"]


BROKEN = {
    "no HTTP": (b"\x16\x03\x01\x02\0\x01\0", 400, "request_invalid"),
    "a broken header": (b"GET /livez HTTP/1.1\r\nBad Header\0: x\r\n\r\n", 400, "request_invalid"),
    "a long address": (b"GET /" + b"a" * 70_000, 431, "head_too_large"),
    "many headers": (b"GET /livez HTTP/1.1\r\n" + b"a:1\r\n" * 300, 431, "head_too_large"),
    "nothing": (b"", 408, "request_timeout"),
    "half a head": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n", 408, "request_timeout"),
}


def test_what_is_not_a_whole_head_is_answered_and_logged_as_a_request_to_another_route(
    start: Callable, bundle: Bundle
) -> None:
    with start("--model", str(bundle.path), "--read-timeout", "1", *LOGGED) as (address, process), ExitStack() as stack:
        seen = {}
        connections = {what: stack.enter_context(connected(address)) for what in BROKEN}
        for what, (sent, _, _) in BROKEN.items():
            connections[what].sendall(sent)
        for what, (_, status, kind) in BROKEN.items():
            found, headers, said = last_of(connections[what])
            assert (found, said["error"]["type"]) == (status, kind), what
            assert ID.fullmatch(said["request_id"])
            seen[headers["x-request-id"]] = status
        metrics = httpx.get(f"{address}/metrics").text
        lines = lines_of(process)
    assert len(seen) == len(BROKEN)
    assert {name: of_line(lines[name]) for name in seen} == {name: ("other", "-", seen[name]) for name in seen}
    assert len(lines) == len(BROKEN) + 1  # /metrics
    assert 'method="-"' not in metrics, "what was not a request is not counted as one"


def test_a_request_id_of_the_clients_is_kept_and_none_before_it(start: Callable, bundle: Bundle, png: Png) -> None:
    with start("--model", str(bundle.path), *LOGGED) as (address, process):
        with connected(address) as half:
            half.sendall(b"GET /livez HTTP/1.1\r\nX-Request-ID: mine\r\n" + b"a:1\r\n" * 300)
            assert last_of(half)[1]["x-request-id"] == "mine"
        with connected(address) as twice:
            twice.sendall(head("first", len(png(1))) + png(1))
            assert heard(twice) == 200
            twice.sendall(b"\0\0\0\0")
            assert ID.fullmatch(last_of(twice)[1]["x-request-id"])
        lines = lines_of(process)
    assert of_line(lines.pop("first")) == ("/embed", "POST", 200)
    assert of_line(lines.pop("mine")) == ("other", "-", 431)
    assert [of_line(line) for line in lines.values()] == [("other", "-", 400)]


def test_a_body_that_does_not_arrive_is_one_line_with_the_status_that_was_answered(
    start: Callable, bundle: Bundle, png: Png
) -> None:
    body = png(1)
    with (
        start("--model", str(bundle.path), "--read-timeout", "1", *LOGGED) as (address, process),
        connected(address) as new,
        connected(address) as known,
        connected(address) as foreign,
    ):
        for _ in range(2):
            known.sendall(head("known", len(body)) + body)
            assert heard(known) == 200
        new.sendall(head("new", len(body)) + body[:9])
        foreign.sendall(head("foreign", len(body), "/v2/embed") + body[:9])
        known.sendall(head("known", len(body)) + body[:9])
        for connection, name in ((new, "new"), (known, "known")):
            status, headers, said = last_of(connection)
            assert (status, said["error"]["type"], headers["x-request-id"]) == (408, "request_timeout", name)
            assert 900 < float(headers["x-total-time"]) < 20_000
        status, headers, said = last_of(foreign)
        assert (status, headers["x-request-id"]) == (408, "foreign")
        assert "message" in said, "in the dialect of its path"
        metrics = httpx.get(f"{address}/metrics").text
        process.terminate()
        log = process.communicate(timeout=20)[1]
    lines = [json.loads(line) for line in log.splitlines()]
    told = [(line["request_id"], line["route"], line["method"], line["status"]) for line in lines if "status" in line]
    assert sorted(told)[1:] == sorted(
        [
            ("foreign", "/v2/embed", "POST", 408),
            ("known", "/embed", "POST", 200),
            ("known", "/embed", "POST", 200),
            ("known", "/embed", "POST", 408),
            ("new", "/embed", "POST", 408),
        ]
    ), "and one of /metrics"
    assert 'nonneg_requests_total{method="POST",route="/embed",status="408"} 2.0' in metrics
    assert 'status="499"' not in metrics
    assert 'nonneg_turned_away_total{type="request_timeout"} 3.0' in metrics


def test_garbage_right_behind_a_request_is_one_answer_and_one_line(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), *LOGGED) as (address, process):
        with connected(address) as connection:
            connection.sendall(head("both", 5) + b"helloGARBAGE\0 \r\n\r\n")
            status, headers, _ = last_of(connection)
            assert (status, headers["x-request-id"]) == (400, "both")
        lines = lines_of(process)
    assert [(line["request_id"], line["method"], line["status"]) for line in lines.values()] == [("both", "POST", 400)]


def test_who_finds_too_many_connections_open_has_an_id_and_a_line_each(start: Callable, bundle: Bundle) -> None:
    crowd = 100  # whose lines a pipe that is not read still holds
    flags = ("--model", str(bundle.path), "--max-connections", "5", *LOGGED)
    with start(*flags) as (address, process), ExitStack() as stack:
        held = [stack.enter_context(connected(address)) for _ in range(5)]
        for connection in held:  # each is in, before the next ones come
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert heard(connection) == 200
        turned_away = [stack.enter_context(connected(address)) for _ in range(crowd)]
        found = [last_of(connection) for connection in turned_away]
        lines = lines_of(process)
    assert {(status, said["error"]["field"]) for status, _, said in found} == {(503, "max_connections")}
    assert {(headers["retry-after"], headers["retry-after-ms"]) for _, headers, _ in found} == {("1", "1000")}
    ids = {headers["x-request-id"] for _, headers, _ in found}
    assert len(ids) == crowd
    assert {of_line(lines[name]) for name in ids} == {("other", "-", 503)}
    assert len(lines) == crowd + len(held), "no more lines than answers"


@pytest.mark.parametrize("known", [False, True])
def test_who_is_cut_off_at_the_end_finds_the_id_in_the_log(
    start: Callable, bundle: Bundle, png: Png, known: bool
) -> None:
    body = png(1)
    with start("--model", str(bundle.path), "--grace", "1", *LOGGED) as (address, process):
        with connected(address) as connection:
            if known:
                connection.sendall(head("late", len(body)) + body)
                assert heard(connection) == 200
            connection.sendall(head("late", len(body)) + body[:9])
            until = time.monotonic() + 60
            while "\nnonneg_upload_bytes 0.0\n" in httpx.get(f"{address}/metrics").text:  # it has read the nine bytes
                assert time.monotonic() < until
            process.terminate()
            status, headers, said = last_of(connection)
            assert (status, headers["x-request-id"], said["error"]["type"]) == (503, "late", "not_ready")
        log = process.communicate(timeout=20)[1]
    lines = [json.loads(line) for line in log.splitlines() if '"status"' in line]
    told = [(line["request_id"], line["route"], line["status"]) for line in lines if line["route"] != "/metrics"]
    assert told == [("late", "/embed", 200)] * known + [("late", "/embed", 503)]
