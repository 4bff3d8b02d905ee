"""A hub on this machine that speaks the endpoints that huggingface_hub uses, for the tests of this folder."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LARGE = 2_000  # bytes from which on a file is stored by its sha256, as large files are


class Hub(ThreadingHTTPServer):
    """Repositories in memory: their files at their only revision."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.gated: set[str] = set()
        self.messages: list[str] = []
        self.asked: list[tuple[str, str | None]] = []  # each file with the range that was asked for
        self.of: list[str] = []  # each file by repository and name
        self.cut: dict[str, int] = {}  # files whose first answer breaks off after so many bytes
        self.sizes: dict[str, int] = {}  # files of which another size is stated
        self.altered: set[str] = set()  # files that come otherwise than they are stated

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def commit(self, repository: str) -> str:
        state = sorted((name, hashlib.sha256(data).hexdigest()) for name, data in self.files[repository].items())
        return hashlib.sha1(json.dumps(state).encode()).hexdigest()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: a connection that is cut is meant."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'someone'}/{asked['name']}"
            self.server.files.setdefault(name, {})
            self.server.private[name] = asked.get("private", False) or asked.get("visibility") == "private"
            self._json({"url": f"{self.server.url}/{name}", "name": name, "id": "1"})
        elif self.path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in json.loads(body)["files"]
            ]
            self._json({"files": files})
        elif found := re.match(r"/api/models/([^/]+/[^/]+)/commit/main", self.path):
            self._commit(found[1], body)
        else:
            self._json({"error": f"no {self.path}"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if found := re.match(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", self.path):
            self._file(found[1], found[2])
        elif found := re.match(r"/api/models/([^/]+/[^/?]+)(?:/revision/([^/?]+))?(\?.*)?$", self.path):
            self._info(found[1], found[2])
        elif found := re.match(r"/api/models/([^/]+/[^/]+)/tree/", self.path):
            files = self.server.files[found[1]].items()
            self._json([{"type": "file", "path": n, "size": len(d), "oid": blob(d)} for n, d in files])
        else:
            self._json({"error": f"no {self.path}"}, 404)

    def _commit(self, repository: str, body: bytes) -> None:
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "header":
                self.server.messages.append(line["value"]["summary"])
            elif line["key"] == "file":
                content = base64.b64decode(line["value"]["content"])
                self.server.files[repository][line["value"]["path"]] = content
        oid = self.server.commit(repository)
        self._json({"success": True, "commitOid": oid, "commitUrl": f"{self.server.url}/{repository}/commit/{oid}"})

    def _closed(self, repository: str) -> bool:
        """Whether the repository is not for those who ask without a token, and has been told so."""
        if self.headers.get("Authorization"):
            return False
        if repository in self.server.gated:
            self._json({"error": "Access to this model is restricted"}, 401, {"X-Error-Code": "GatedRepo"})
            return True
        if self.server.private.get(repository):
            self._json({"error": "Repository not found"}, 401, {"X-Error-Code": "RepoNotFound"})
            return True
        return False

    def _info(self, repository: str, revision: str | None) -> None:
        if repository not in self.server.files:
            return self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        if self._closed(repository):
            return None
        commit = self.server.commit(repository)
        if revision not in (None, "main", commit):
            return self._json({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        siblings = [self._sibling(name, data) for name, data in self.server.files[repository].items()]
        return self._json({"id": repository, "sha": commit, "siblings": siblings, "private": False})

    def _sibling(self, name: str, data: bytes) -> dict[str, Any]:
        record: dict[str, Any] = {
            "rfilename": name,
            "size": self.server.sizes.get(name, len(data)),
            "blobId": blob(data),
        }
        if len(data) >= LARGE:
            digest = hashlib.sha256(data).hexdigest()
            record["lfs"] = {"sha256": digest, "size": record["size"], "pointerSize": 134}
        return record

    def _file(self, repository: str, name: str) -> None:
        data = self.server.files.get(repository, {}).get(name)
        if data is None:
            return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        if self._closed(repository):
            return None
        headers = {"ETag": f'"{blob(data)}"', "X-Repo-Commit": self.server.commit(repository), "Accept-Ranges": "bytes"}
        if name in self.server.altered:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if self.command == "HEAD":
            return self._answer(200, data, headers)
        asked = self.headers.get("Range")
        self.server.asked.append((name, asked))
        self.server.of.append(f"{repository}/{name}")
        if asked is None:
            return self._answer(200, data, headers, cut=self.server.cut.pop(name, None))
        start = int(asked.removeprefix("bytes=").partition("-")[0])
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return self._answer(206, data[start:], headers)

    def _json(self, record: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._answer(status, json.dumps(record).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _answer(self, status: int, data: bytes, headers: dict[str, str], *, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[:cut])
        if cut is not None:
            self.close_connection = True


def blob(data: bytes) -> str:
    """Git's name for a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def running() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
