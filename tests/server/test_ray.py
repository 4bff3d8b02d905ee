"""The application for replicas of Ray Serve: the server's own, with the settings of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from nonneg_server import ray
from nonneg_server.settings import Settings


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> Iterator[FastAPI]:
    monkeypatch.setenv("NONNEG_MODEL", "photo-fast")
    monkeypatch.setenv("NONNEG_API_KEY", "a-secret-of-enough-length")
    app = ray.application()
    yield app
    app.state.registry.close(0.0)


@pytest.mark.anyio
async def test_a_replica_answers_as_the_server_does(replica: FastAPI, photos: Path) -> None:
    photo = (photos / "cat" / "cat-0.jpg").read_bytes()
    headers = {"Content-Type": "image/jpeg"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(replica), base_url="http://test") as http:
        assert (await http.get("/readyz")).status_code == 200
        assert (await http.post("/embed", content=photo, headers=headers)).status_code == 401
        headers["Authorization"] = "Bearer a-secret-of-enough-length"
        answer = await http.post("/embed?top_k=3", content=photo, headers=headers)
        broken = await http.post("/embed", content=b"junk", headers=headers)
        studio = await http.get("/studio", headers=headers)
    assert (answer.status_code, answer.json()["model"]) == (200, "photo-fast")
    assert (broken.status_code, broken.json()["error"]["type"]) == (415, "image_unsupported")
    assert studio.status_code == 404  # who may reach the proxy is not known here


def test_a_replica_takes_one_thread_unless_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ray.settings_of_a_replica().threads == 1
    monkeypatch.setenv("NONNEG_THREADS", "3")
    settings: Settings = ray.settings_of_a_replica()
    assert settings.threads == 3


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_serve_run_finds_the_application_by_its_name() -> None:
    serve = pytest.importorskip("ray.serve", reason="the package ray is not installed with its serve part")
    assert isinstance(ray.app, serve.Application)
    with pytest.raises(AttributeError):
        _ = ray.other
