"""Mutated requests for every route of a real server: bounds on time, on the answer, and on the server's memory."""

from __future__ import annotations

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
from every_route import GETS, posts
from json_mutations import PARAMETERS, changed_json
from mutations import mutated
from seeds import seeds

MOST_MEMORY = 700 * 2**20  # bytes that the server may grow by
MOST_ANSWER = 32 * 2**20  # bytes
ALLOWED = range(200, 500)  # and 503, 504: full or late, never at fault
TOKENS = (
    b"null", b"-1", b"1e999", b"9" * 40, b"[]", b"{}", b'""', b"true", b"\0", b"\xff\xfe", b'"\\ud800"', b"[[[[[[[[",
    b"NaN", b"0.1", b'"a"', b"%00", b"\r\n", b"--b", b"('", b"'",
)  # fmt: skip
HEADERS = (
    "Content-Length: 0", "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999",
    "Content-Length: 1, 1", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue",
    "Connection: close", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c", "Content-Encoding: gzip",
    "Content-Type: application/json", "Content-Type: multipart/form-data", "Accept: */*;q=0", "Origin: null",
    "Content-Type: multipart/form-data; boundary=" + "b" * 300, "Accept: application/x-npy",
    "Accept: application/msgpack", "Accept: " + "," * 500, "X-Request-Timeout: 0.001", "X-Request-Timeout: nan",
    "X-Request-Id: " + "i" * 500, "traceparent: 00-0-0-0", "Authorization: Bearer \xff", "Cookie: " + "c=1; " * 200,
    "Host: b", "Range: bytes=0-1", "Inference-Header-Content-Length: " + "9" * 5000, "X-Request-Timeout: " + "9" * 5000,
    "Inference-Header-Content-Length: 3", "Sec-Fetch-Site: cross-site", "If-None-Match: *",
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
            *("--model", "photo", "--model", "photo-fast"),
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.log: list[str] = []
        self._port = self._started()
        self._model, self._spare = self._names()
        self._dropped = self._uploaded()
        self._before = self._memory()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def make(self, number: int) -> bytes:
        """Head and body of one request, as they go over the wire."""
        chance = random.Random(f"{self._seed} {number}")
        if chance.random() < 0.2:
            return self._head(f"GET {self._named(chance.choice(GETS), chance)}", [], b"", chance)
        kind = chance.choice(sorted(self._seeds))
        image = mutated(kind, self._seeds[kind], chance) if chance.random() < 0.5 else self._seeds[kind][0]
        post = chance.choice(posts(image))
        body = post.body.replace(b'"model": "m"', b'"model": "%b"' % self._model.encode())
        body = body.replace(b'"model": "spare"', b'"model": "%b"' % self._spare.encode())
        if chance.random() < 0.5:
            body = _changed_body(post.mime, body, chance)
        line = f"{post.method} {self._named(post.path, chance)}"
        return self._head(line, [f"Content-Type: {post.mime}", *post.headers], body, chance)

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

    def _named(self, path: str, chance: random.Random) -> str:
        """The path with the served names in it, and now and then with parameters."""
        if chance.random() < 0.95:
            path = path.replace("/spare/", f"/{self._spare}/").replace("drop-0", self._dropped)
            path = re.sub("/m(?=/|$)", f"/{self._model}", path)
        if chance.random() < 0.6:
            return path
        values = ("1", "64", "0", "-1", "x", "%00", "%ff", "1,2,3", "", "true", "9" * 400, "sparse", "9" * 5000)
        given = (f"{chance.choice(PARAMETERS)}={chance.choice(values)}" for _ in range(chance.randint(1, 4)))
        return path + ("&" if "?" in path else "?") + "&".join(given)

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

    def _names(self) -> tuple[str, str]:
        """The models' that are served: the default one's, and that of one which may be unloaded."""
        default, spare = self._json("GET", "/v1/models")["data"]
        return str(default["id"]), str(spare["id"])

    def _uploaded(self) -> str:
        """The name of a photo that the studio has now."""
        head = f"Content-Type: image/*\r\nX-Nonneg-Studio: 1\r\nContent-Length: {len(self._seeds['JPEG'][0])}"
        return str(self._json("POST", "/studio/uploads", head, self._seeds["JPEG"][0])["photo"])

    def _json(self, method: str, path: str, head: str = "Content-Length: 0", body: bytes = b"") -> Any:
        line = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{head}\r\n\r\n"
        return json.loads(self._asked(line.encode() + body).partition(b"\r\n\r\n")[2])

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
        return changed_json(body, chance)
    parts = bytearray(body)
    for _ in range(chance.choice((1, 1, 3, 8, 30))):
        place = chance.randrange(min(len(parts), 400) + 1)
        length = chance.choice((0, 1, chance.randrange(20)))
        kinds = (b"", chance.randbytes(1), chance.choice(TOKENS), bytes(parts[place:][: chance.randrange(40)]))
        parts[place : place + length] = chance.choice(kinds)
    return bytes(parts[: chance.randrange(len(parts) + 1)] if chance.random() < 0.2 else parts)


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
