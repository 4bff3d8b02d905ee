"""What every answer has: an id, an error body, the right status."""

from __future__ import annotations

import httpx
import pytest

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


async def test_models_and_health(client: httpx.AsyncClient) -> None:
    models = (await client.get("/models")).json()["models"]
    assert [(m["name"], m["dimensions"]) for m in models] == [("tiny", 48)]
    assert (await client.get("/livez")).status_code == 200
    assert (await client.get("/readyz")).status_code == 200
