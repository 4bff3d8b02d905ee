"""Mutated requests for every route of a real server: bounds on time, on the answer, and on the server's memory."""

from __future__ import annotations

import base64
import copy
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from bounds import ANSWERED, LEAKS, SERVED, Broken
from mutations import mutated
from seeds import seeds

MOST_MEMORY = 700 * 2**20  # bytes that the server may grow by
MOST_ANSWER = 32 * 2**20  # bytes
ALLOWED = range(200, 500)  # and 503, 504: full or late, never at fault
GETS = (
    "/", "/models", "/models/m", "/models/m/dimensions",
    "/models/m/dimensions/3", "/models/m/dimensions/3/examples/0", "/livez", "/readyz",
    "/metrics", "/openapi.json", "/docs", "/v1/models", "/v1/models/m", "/v2", "/v2/health/live", "/v2/health/ready",
    "/v2/models/m", "/v2/models/m/ready", "/v2/models/m/versions/1", "/info", "/health", "/studio", "/studio/photos",
    "/studio/photos/drop-0", "/studio/search?expression=dim:3", "/studio/dimensions/3", "/studio/page/app.js",
)  # fmt: skip
QUERIES = ("dimensions", "top_k", "normalize", "format", "encoding", "errors", "model", "limit")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**64, 1e308, 0.1, "", "x", "a" * 5000, "\0", "\ud800", "float16", "base64",
    "sparse", "http://127.0.0.1/", "http://xn--/", "data:image/png;base64,", "file:///etc/passwd", [], {}, [[]], [None],
    {"a": 1}, [1] * 3000,
)  # fmt: skip
HEADERS = (
    "Content-Length: 0", "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999",
    "Content-Length: 1, 1", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue",
    "Connection: close", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c", "Content-Encoding: gzip",
    "Content-Type: application/json", "Content-Type: multipart/form-data", "Accept: */*;q=0", "Origin: null",
    "Content-Type: multipart/form-data; boundary=" + "b" * 300, "Accept: application/x-npy",
    "Accept: application/msgpack", "Accept: " + "," * 500, "X-Request-Timeout: 0.001", "X-Request-Timeout: nan",
    "X-Request-Id: " + "i" * 500, "traceparent: 00-0-0-0", "Authorization: Bearer \xff", "Cookie: " + "c=1; " * 200,
    "Host: b", "Range: bytes=0-1",
)  # fmt: skip


class Routes:
    """A server, and numbered requests to it."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._seeds = seeds()
        command = [
            str(Path(sys.executable).with_name("nonneg")),
            "serve",
            "--port",
            "0",
            "--read-timeout",
            "2",
            "--manage",
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.log: list[str] = []
        self._port = self._started()
        self._model = self._name()
        self._before = self._memory()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def make(self, number: int) -> bytes:
        """Head and body of one request, as they go over the wire."""
        chance = random.Random(f"{self._seed} {number}")
        if chance.random() < 0.15:
            path = chance.choice(GETS).replace("/m/", f"/{self._model}/") if chance.random() < 0.9 else "/models/m"
            return self._head(f"GET {path}{self._query(chance)}", [], b"", chance)
        kind = chance.choice(sorted(self._seeds))
        image = mutated(kind, self._seeds[kind], chance) if chance.random() < 0.5 else self._seeds[kind][0]
        path, mime, body = chance.choice(self._bodies(image))
        if chance.random() < 0.5:
            body = _changed_body(mime, body, chance)
        return self._head(f"POST {path}{self._query(chance)}", [f"Content-Type: {mime}"], body, chance)

    def attempt(self, data: bytes) -> str:
        """The status of its answer, or that the connection was closed; Broken where a bound does not hold."""
        before = self._processor()
        try:
            answer = self._asked(data)
        except TimeoutError:
            raise Broken(f"no answer within {ANSWERED:g} s") from None
        if (used := self._processor() - before) > SERVED:
            raise Broken(f"an answer took {used:.0f} s of a core")
        self._check_server()
        return _checked(answer)

    def _asked(self, data: bytes) -> bytes:
        """All that comes until the server closes, or leaves the connection idle."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=ANSWERED) as client:
            sending = threading.Thread(target=_send, args=(client, data), daemon=True)
            sending.start()
            answer = b""
            try:
                while len(answer) < MOST_ANSWER and (piece := client.recv(2**16)):
                    answer += piece
                    if _complete(answer):
                        break
            except ConnectionError:
                pass
            return answer

    def _check_server(self) -> None:
        if self.process.poll() is not None:
            raise Broken(f"the server ended with {self.process.returncode}: {''.join(self.log[-20:])}")
        if any("Traceback" in line for line in self.log):
            raise Broken("".join(self.log[-40:]))
        if self._memory() - self._before > MOST_MEMORY:
            raise Broken(f"the server holds {self._memory()} bytes, {self._before} when it began")

    def _bodies(self, image: bytes) -> list[tuple[str, str, bytes]]:
        text, name = base64.b64encode(image).decode(), self._model
        form = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n' + image + b"\r\n--b--\r\n"
        tensor = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": [text]}]}
        vectors = {"vectors": [{"indices": [1, 3], "values": [0.5, 0.2]}], "dimensions": 2}
        return [
            ("/embed", "image/*", image),
            ("/embed", "multipart/form-data; boundary=b", form),
            ("/embed", "application/json", json.dumps({"images": [text, text], "dimensions": 64}).encode()),
            ("/shorten", "application/json", json.dumps(vectors).encode()),
            (
                "/shorten",
                "application/x-npy",
                b"\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4)}",
            ),
            ("/explain", "application/json", json.dumps({"image": text, "limit": 3}).encode()),
            ("/v1/embeddings", "application/json", json.dumps({"model": name, "input": [text]}).encode()),
            ("/v2/embed", "application/json", json.dumps({"model": name, "images": [text]}).encode()),
            (f"/v2/models/{name}/infer", "application/json", json.dumps(tensor).encode()),
            ("/v2/repository/index", "application/json", b"{}"),
            (f"/v2/repository/models/{name}/load", "application/json", b"{}"),
        ]

    def _query(self, chance: random.Random) -> str:
        if chance.random() < 0.6:
            return ""
        values = ("1", "64", "0", "-1", "x", "%00", "%ff", "1,2,3", "", "true", "9" * 400, "sparse")
        return "?" + "&".join(f"{chance.choice(QUERIES)}={chance.choice(values)}" for _ in range(chance.randint(1, 4)))

    def _head(self, line: str, headers: list[str], body: bytes, chance: random.Random) -> bytes:
        headers = [f"Host: 127.0.0.1:{self._port}", f"Content-Length: {len(body)}", *headers]
        for _ in range(chance.choice((0, 0, 0, 0, 1, 3))):
            headers.insert(chance.randrange(len(headers) + 1), chance.choice(HEADERS))
        head = "\r\n".join([f"{line} HTTP/1.1", *headers, "", ""]).encode("latin-1", "replace")
        if chance.random() < 0.05:
            changed = bytearray(head)
            changed[chance.randrange(len(changed))] = chance.randrange(256)
            head = bytes(changed)
        return head + body

    def _name(self) -> str:
        """The model's, in whose place requests are made with an m."""
        _, _, body = self._asked(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n").partition(b"\r\n\r\n")
        return str(json.loads(body)["data"][0]["id"])

    def _started(self) -> int:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log.append(line)
            if found := re.search(r"http://[\w.]+:(\d+)", line):
                threading.Thread(target=self._listen, daemon=True).start()
                return int(found[1])
        raise Broken("".join(self.log))

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log.append(line)

    def _processor(self) -> float:
        """Seconds of a core that the server has used."""
        if self.process.poll() is not None:
            return 0.0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _memory(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096


def _changed_body(mime: str, body: bytes, chance: random.Random) -> bytes:
    if mime == "application/json" and chance.random() < 0.8:
        return json.dumps(_replaced(json.loads(body), chance)).encode("utf-8", "surrogatepass")
    parts = bytearray(body)
    for _ in range(chance.choice((1, 3, 30))):
        if parts:
            parts[chance.randrange(min(len(parts), 400))] = chance.randrange(256)
    return bytes(parts[: chance.randrange(len(parts) + 1)] if chance.random() < 0.2 else parts)


def _replaced(value: Any, chance: random.Random) -> Any:
    """One value somewhere inside, replaced by something else; or a field more, or less."""
    value = copy.deepcopy(value)
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        if chance.random() < 0.15:
            del value[key]
        elif chance.random() < 0.15:
            value[chance.choice(QUERIES)] = chance.choice(VALUES)
        else:
            value[key] = _replaced(value[key], chance)
        return value
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        value[at] = _replaced(value[at], chance)
        return value
    return chance.choice(VALUES)


def _send(client: socket.socket, data: bytes) -> None:
    try:
        client.sendall(data)
    except OSError:  # it was answered, and closed, before all had been sent
        return


def _complete(answer: bytes) -> bool:
    """Whether an answer, other than an interim one, has come with all of its body."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    if head.startswith(b"HTTP/1.1 1"):
        return _complete(body)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if length is not None:
        return len(body) >= int(length[1])
    return body.endswith(b"0\r\n\r\n") if b"chunked" in head.lower() else head.startswith(b"HTTP/1.1 304")


def _checked(answer: bytes) -> str:
    if not answer:
        return "closed"
    while answer.startswith(b"HTTP/1.1 1"):
        answer = answer.partition(b"\r\n\r\n")[2]
    if not answer:
        return "closed"
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    if found is None:
        raise Broken(f"no answer in HTTP: {answer[:200]!r}")
    status = int(found[1])
    if status not in ALLOWED and status not in (503, 504):
        raise Broken(f"{status}: {answer[:1000]!r}")
    body = answer.partition(b"\r\n\r\n")[2]
    if status >= 400 and (leak := LEAKS.search(body.decode("utf-8", "replace"))):
        raise Broken(f"{status} says {leak[0]!r}: {body[:1000]!r}")
    return str(status)
