"""What every answer has: an id, an error body, the right status."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio


async def test_the_request_id_is_echoed_or_made(client: httpx.AsyncClient) -> None:
    echoed = await client.get("/livez", headers={"x-request-id": "abc-1"})
    made = await client.get("/livez")
    odd = await client.get("/livez", headers={"x-request-id": "a b" * 100})
    assert echoed.headers["x-request-id"] == "abc-1"
    assert len(made.headers["x-request-id"]) == len(odd.headers["x-request-id"]) == 32
    assert float(made.headers["x-total-time"]) >= 0


async def test_a_wrong_path_is_404_and_hints_at_the_right_one(client: httpx.AsyncClient) -> None:
    response = await client.post("/embedd", headers={"x-request-id": "r"})
    assert response.status_code == 404
    assert response.json()["request_id"] == "r"
    assert response.json()["error"]["type"] == "not_found"
    assert "/embed" in response.json()["error"]["fix"]


async def test_a_path_that_is_like_none_is_not_given_a_far_one_for_a_hint(client: httpx.AsyncClient) -> None:
    for path in ("/nowhere", "/admin", "/predict", "/.env"):
        assert (await client.get(path)).json()["error"]["fix"] == "see /docs"


async def test_a_wrong_method_is_405_and_names_the_right_one(client: httpx.AsyncClient) -> None:
    response = await client.get("/embed")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["type"] == "method_not_allowed"
    assert "POST" in response.json()["error"]["fix"]


async def test_an_unknown_model_is_404(client: httpx.AsyncClient) -> None:
    response = await client.post("/embed?model=other", content=b"x", headers={"content-type": "image/png"})
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "model_not_found"
    assert "tiny" in response.json()["error"]["fix"]


class Counting:
    """Middleware as an operator may write it."""

    def __init__(self, app: Any, seen: list[str]) -> None:
        self.app, self.seen = app, seen

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(f"{scope['method']} {scope['path']}")
        await self.app(scope, receive, send)


async def test_middleware_that_is_added_sees_every_request(registry: Registry, png: Callable[[int], bytes]) -> None:
    app, seen = create_app(registry, Settings(api_key=("a-secret-of-enough-length",))), []
    app.add_middleware(Counting, seen=seen)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        key = {"x-api-key": "a-secret-of-enough-length"}
        for _ in range(2):
            assert (await client.post("/embed", content=png(0), headers=key)).status_code == 200
        await client.post("/embed", content=png(0))
        await client.head("/readyz")
        await client.get("/nowhere", headers=key)
    assert seen == ["POST /embed"] * 3 + ["HEAD /readyz", "GET /nowhere"]


async def test_the_time_counts_from_the_headers_on(registry: Registry) -> None:
    started = time.perf_counter() - 7.5
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/livez",
        "headers": [],
        "query_string": b"",
        "state": {"started": started},
    }
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await create_app(registry, Settings())(scope, None, send)
    assert float(dict(sent[0]["headers"])[b"x-total-time"]) >= 7500


async def test_models_and_health(client: httpx.AsyncClient) -> None:
    models = (await client.get("/models")).json()["models"]
    assert [(m["name"], m["dimensions"]) for m in models] == [("tiny", 48)]
    assert (await client.get("/livez")).status_code == 200
    assert (await client.get("/readyz")).status_code == 200
