"""Where a request comes from: pages of other sites reach no route of a server on loopback; programs notice nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from nonneg_server.models.served_models import Registry, Repository
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio
EVIL = "https://evil.example"
ROUTES = ["/", "/models", "/metrics", "/docs", "/livez", "/models/tiny/dimensions/0/examples/0", "/v2/models/tiny"]
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
ClientFor = Callable[..., httpx.AsyncClient]


def outcome(answer: httpx.Response) -> tuple[int, str]:
    assert answer.status_code == 403, (answer.status_code, answer.text[:200])
    error = answer.json()["error"]
    if isinstance(error, str):  # KServe's and TEI's
        return 403, error
    assert error["fix"]
    return 403, error["field"]


@pytest.mark.parametrize("path", ROUTES)
async def test_by_a_rebound_name_no_route_is_answered(client: httpx.AsyncClient, path: str) -> None:
    refused = await client.get(path, headers={"host": "evil.example:9350"})
    assert refused.status_code == 403
    assert "--allow-host" in refused.text
    assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize("path", ROUTES)
async def test_another_sites_page_fetches_nothing(client: httpx.AsyncClient, path: str) -> None:
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": EVIL}):
        assert (await client.get(path, headers=headers)).status_code == 403, headers
    for site in ("none", "same-origin"):
        assert (await client.get(path, headers={"sec-fetch-site": site})).status_code == 200, site


@pytest.mark.parametrize("origin", [EVIL, "null", "http://localhost:3000"])
@pytest.mark.parametrize("kind", ["image/png", "text/plain", "application/x-www-form-urlencoded"])
async def test_a_form_of_another_origin_is_not_embedded(
    client: httpx.AsyncClient, png: Callable[[int], bytes], origin: str, kind: str
) -> None:
    refused = await client.post("/embed", content=png(0), headers={"origin": origin, "content-type": kind})
    assert outcome(refused) == (403, "origin")


async def test_its_own_page_and_allowed_origins_are_answered(
    client_for: ClientFor, png: Callable[[int], bytes]
) -> None:
    async with client_for(cors_origin="https://ok.example", allow_host="photos.example") as client:
        for headers in (
            {"origin": "http://localhost"},
            {"origin": "https://ok.example", "sec-fetch-site": "cross-site"},
            {"origin": "http://localhost:8080", "sec-fetch-site": "same-origin"},
            {"host": "photos.example", "origin": "https://photos.example:8443"},
        ):
            assert (await client.post("/embed", content=png(0), headers=headers)).status_code == 200, headers
        assert (await client.post("/embed", content=png(0), headers={"origin": EVIL})).status_code == 403


async def test_a_link_that_someone_follows_opens_a_page_and_posts_nothing(client: httpx.AsyncClient) -> None:
    assert (await client.get("/docs", headers=LINK)).status_code == 200
    assert (await client.post("/v2/repository/index", headers=LINK)).status_code == 403
    assert (await client.get("/docs", headers={**LINK, "sec-fetch-dest": "iframe"})).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"host": "localhost:8000"}, {"host": "127.0.0.1"}, {"host": "[::1]:8000"}, {"host": ""}, {"user-agent": "curl/8"}],
)
async def test_programs_notice_nothing(
    client: httpx.AsyncClient, png: Callable[[int], bytes], headers: dict[str, str]
) -> None:
    assert (await client.post("/embed", content=png(0), headers=headers)).status_code == 200


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"api_key": "a key of this test"}])
async def test_elsewhere_and_with_keys_any_name_may_be_used(client_for: ClientFor, settings: dict[str, Any]) -> None:
    async with client_for(**settings) as client:
        headers = {"host": "embed.example.org", "origin": EVIL, "x-api-key": "a key of this test"}
        assert (await client.get("/models", headers=headers)).status_code == 200
        assert (await client.get("/models", headers={"host": "embed.example.org"})).status_code in (200, 401)


async def test_a_request_with_two_origins_is_refused(client: httpx.AsyncClient) -> None:
    refused = await client.get("/models", headers=[("origin", "http://localhost"), ("origin", EVIL)])
    assert refused.status_code == 400


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
async def managed(registry: Registry, request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(host=request.param, manage=True, cors_origin=("*", "https://ok.example"))
    app = create_app(registry, settings, repository=Repository({}, registry, lambda _: None))  # type: ignore[arg-type,return-value]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client


async def test_what_only_browsers_send_manages_no_models(managed: httpx.AsyncClient) -> None:
    path, plain = "/v2/repository/models/tiny/unload", {"content-type": "text/plain"}
    for headers in ({"origin": EVIL}, {"origin": "http://localhost"}, {"sec-fetch-site": "cross-site"}):
        assert (await managed.post(path, headers={**plain, **headers})).status_code == 403, headers
    for headers in ({}, {"origin": "https://ok.example"}):  # the model is not in the repository
        assert (await managed.post(path, headers=headers)).status_code in (404, 422)


async def test_pictures_are_what_they_say_they_are(client: httpx.AsyncClient) -> None:
    picture = await client.get("/models/tiny/dimensions/0/examples/0")
    assert picture.headers["x-content-type-options"] == "nosniff"
