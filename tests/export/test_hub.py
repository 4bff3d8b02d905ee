"""`push` and `pull` through the real huggingface_hub, against a server here that speaks the hub's few endpoints."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nonneg_runtime.bundle import DEFAULT, open_bundle

pytest.importorskip("huggingface_hub")
NONNEG = str(Path(sys.executable).with_name("nonneg"))


class Hub(ThreadingHTTPServer):
    """Repositories in memory: their files at their only revision."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.messages: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def commit(self, repository: str) -> str:
        state = sorted((name, hashlib.sha256(data).hexdigest()) for name, data in self.files[repository].items())
        return hashlib.sha1(json.dumps(state).encode()).hexdigest()


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
        elif found := re.match(r"/api/models/([^/]+/[^/?]+)(/revision/[^/?]+)?(\?.*)?$", self.path):
            self._info(found[1])
        elif found := re.match(r"/api/models/([^/]+/[^/]+)/tree/", self.path):
            files = self.server.files[found[1]].items()
            self._json([{"type": "file", "path": n, "size": len(d), "oid": _blob(d)} for n, d in files])
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

    def _info(self, repository: str) -> None:
        if repository not in self.server.files:
            return self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        siblings = [{"rfilename": name} for name in self.server.files[repository]]
        return self._json(
            {"id": repository, "sha": self.server.commit(repository), "siblings": siblings, "private": False}
        )

    def _file(self, repository: str, name: str) -> None:
        data = self.server.files.get(repository, {}).get(name)
        if data is None:
            return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": f'"{_blob(data)}"', "X-Repo-Commit": self.server.commit(repository)}
        return self._answer(200, data, headers)

    def _json(self, record: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._answer(status, json.dumps(record).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _blob(data: bytes) -> str:
    """Git's name for a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def nonneg(hub: Hub, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "HF_TOKEN": "hf_x"}
    command = [NONNEG, *words]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_bundle_goes_to_the_hub_and_comes_back_the_same(hub: Hub, tmp_path: Path) -> None:
    done = nonneg(hub, tmp_path, "push", str(DEFAULT), "hf:someone/lite", "--private")
    assert done.returncode == 0, done.stderr
    shipped = [path.name for path in DEFAULT.iterdir()]
    assert sorted(hub.files["someone/lite"]) == sorted([*shipped, "README.md"])
    assert hub.files["someone/lite"]["README.md"].startswith(b'---\nlicense: "apache-2.0"')
    assert hub.private["someone/lite"]
    assert open_bundle().manifest.fingerprint in hub.messages[0]
    hub.files["someone/lite"]["evil.py"] = b"raise SystemExit"
    done = nonneg(hub, tmp_path, "pull", "hf:someone/lite", "back")
    assert done.returncode == 0, done.stderr
    assert open_bundle(tmp_path / "back").manifest == open_bundle().manifest
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == sorted([*shipped, "README.md"])
    assert not list((tmp_path / "hf").rglob("evil.py")), "what the manifest does not list is not even fetched"


def test_a_damaged_repository_is_not_pulled(hub: Hub, tmp_path: Path) -> None:
    whole = {path.name: path.read_bytes() for path in DEFAULT.iterdir()}
    hub.files["someone/bad"] = {**whole, "encoder.onnx": whole["encoder.onnx"][:-1] + b"x"}
    done = nonneg(hub, tmp_path, "pull", "hf:someone/bad", "out")
    assert done.returncode == 1
    assert "encoder.onnx is not the file that was exported" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("files", [None, {"config.json": b"{}"}])
def test_what_is_not_there_or_no_bundle_is_one_line(files: dict[str, bytes] | None, hub: Hub, tmp_path: Path) -> None:
    if files is not None:
        hub.files["someone/else"] = files
    done = nonneg(hub, tmp_path, "pull", "hf:someone/else", "out")
    assert done.returncode == 1
    assert "Error: hf:someone/else" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
