"""The application for replicas of Ray Serve: the server's own, with the settings of the environment."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from nonneg_client import Encoder
from nonneg_server import ray
from nonneg_server.engine import canary
from nonneg_server.startup.server_settings import Settings


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """A replica sends all of its process's log to standard error: other tests want theirs back."""
    loggers = [
        logging.getLogger(name) for name in ("", "nonneg", "uvicorn", "uvicorn.error", "python_multipart", "PIL")
    ]
    before = [(one.handlers[:], one.filters[:], one.propagate, one.level) for one in loggers]
    yield
    for logger, (handlers, filters, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.filters, logger.propagate = handlers, filters, propagate
        logger.setLevel(level)


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch, logging_as_before: None) -> Iterator[FastAPI]:
    monkeypatch.setenv("NONNEG_MODEL", "photo-fast")
    monkeypatch.setenv("NONNEG_API_KEY", "a-secret-of-enough-length")
    app = ray.application()
    yield app
    app.state.registry.close(0.0)


@pytest.mark.anyio
async def test_a_replica_answers_as_the_server_does(replica: FastAPI, photos: Path) -> None:
    photo = (photos / "cat" / "cat-0.jpg").read_bytes()
    headers = {"Content-Type": "image/jpeg"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(replica), base_url="http://127.0.0.1") as http:
        assert (await http.get("/readyz")).status_code == 200
        assert (await http.post("/embed", content=photo, headers=headers)).status_code == 401
        headers["Authorization"] = "Bearer a-secret-of-enough-length"
        answer = await http.post("/embed?top_k=3", content=photo, headers=headers)
        broken = await http.post("/embed", content=b"junk", headers=headers)
        studio = await http.get("/studio", headers=headers)
    assert (answer.status_code, answer.json()["model"]) == (200, "photo-fast")
    assert (broken.status_code, broken.json()["error"]["type"]) == (415, "image_unsupported")
    assert studio.status_code == 404  # who may reach the proxy is not known here


@pytest.mark.anyio
async def test_a_replica_sends_the_canary_and_is_unhealthy_once_it_is_answered_wrong(
    replica: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "INTERVAL", 0.0)
    asked = ray.Replica()
    asked.app = replica
    (engine,) = replica.state.registry.all()
    await asked.check_health()
    assert asked.canaries._task is not None
    await asked.canaries._task
    assert engine.canary.cosine >= engine.canary.bound
    engine.canary.note(np.ones(engine.bundle.manifest.dimensions, np.float32))
    with pytest.raises(RuntimeError, match="a picture that it knows"):
        await asked.check_health()


def test_a_replica_takes_one_thread_unless_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ray.settings_of_a_replica().threads == 1
    monkeypatch.setenv("NONNEG_THREADS", "3")
    settings: Settings = ray.settings_of_a_replica()
    assert settings.threads == 3


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """`serve run` with the application, in processes of its own; its address."""
    pytest.importorskip("ray.serve", reason="the package ray is not installed with its serve part")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configuration = {
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [{"name": "nonneg", "route_prefix": "/", "import_path": "nonneg_server.ray:app"}],
    }
    (tmp_path / "serve.yaml").write_text(json.dumps(configuration))  # which is YAML too
    command = [sys.executable, "-c", "from ray.serve.scripts import cli; cli()", "run", str(tmp_path / "serve.yaml")]
    environment = {**os.environ, "NONNEG_MODEL": "photo-fast", "RAY_USAGE_STATS_ENABLED": "0"}
    url, log = f"http://127.0.0.1:{port}", tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 220
        while not is_ready(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=10).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_serve_run_answers_as_the_server_does(served: str, photos: Path) -> None:
    photo = (photos / "cat" / "cat-0.jpg").read_bytes()
    headers = {"Content-Type": "image/jpeg"}
    with httpx.Client(base_url=served, timeout=60) as http:
        assert http.get("/readyz").status_code == 200
        (found,) = http.post("/embed", content=photo, headers=headers).json()["data"]
        broken = http.post("/embed", content=b"junk", headers=headers)
    with Encoder("photo-fast") as encoder:
        indices, values = encoder.embed([photo]).row(0)
    assert found["indices"] == indices.tolist()
    np.testing.assert_allclose(found["values"], values, atol=2e-5)
    assert (broken.status_code, broken.json()["error"]["type"]) == (415, "image_unsupported")


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_serve_run_finds_the_application_by_its_name() -> None:
    serve = pytest.importorskip("ray.serve", reason="the package ray is not installed with its serve part")
    assert isinstance(ray.app, serve.Application)
    with pytest.raises(AttributeError):
        _ = ray.other
