from collections.abc import Callable

import httpx
import pytest
from fastapi.routing import APIRoute

from nonneg_server.app import create_app
from nonneg_server.http.direct import takes_only_the_request
from nonneg_server.registry import Registry
from nonneg_server.settings import Settings

pytestmark = pytest.mark.anyio


def test_the_routes_that_carry_images_are_direct(registry: Registry) -> None:
    app = create_app(registry, Settings())
    direct = {r.path for r in app.routes if isinstance(r, APIRoute) and takes_only_the_request(r)}
    assert "/embed" in direct
    assert not any("{" in path for path in direct)


@pytest.mark.parametrize("path", ["/embed?dimensions=8", "/embed?dimensions=900", "/embed?nonsense=1"])
async def test_direct_and_routed_answers_are_the_same(
    registry: Registry, png: Callable[[int], bytes], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = []
    for direct in (True, False):
        if not direct:
            monkeypatch.setattr("nonneg_server.http.direct.takes_only_the_request", lambda route: False)
        app = create_app(registry, Settings())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            found = await client.post(path, content=png(3), headers={"x-request-id": "same"})
        answers.append((found.status_code, found.json(), found.headers["content-type"]))
    assert answers[0] == answers[1]
