"""/docs loads nothing from anywhere; HEAD is answered wherever GET is."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import httpx
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.api.docs_page import page
from nonneg_server.startup.documents import operations

pytestmark = pytest.mark.anyio
LOADING = {"src", "srcset", "data", "action", "poster", "background"}
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """What a browser would fetch and run, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in ("script", "link", "img", "iframe") or LOADING & set(given) or any(n.startswith("on") for n in given):
            self.fetched.append(tag)
        if "href" in given and not re.fullmatch(r"#[\w-]+|openapi\.json", given["href"] or ""):
            self.fetched.append(str(given["href"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def test_the_page_shows_every_operation_and_fetches_nothing(client: httpx.AsyncClient) -> None:
    answer = await client.get("/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    reader = Reader()
    reader.feed(answer.text)
    assert reader.fetched == []
    assert reader.open == []
    assert "@import" not in answer.text
    assert "url(" not in answer.text
    for _, route, _ in operations():
        for method in route.methods or ():
            assert f"<b>{method}</b> <code>{route.path}</code>" in answer.text, route.path
    assert "curl -s --data-binary @photo.jpg" in answer.text
    assert "Of those, keep each vector&#x27;s largest this many." in answer.text


async def test_the_root_points_to_what_there_is(client_for: Callable[..., httpx.AsyncClient]) -> None:
    async with client_for(host="0.0.0.0") as client:  # without a studio
        await _pointers_lead_somewhere(client)


async def _pointers_lead_somewhere(client: httpx.AsyncClient) -> None:
    pointers = (await client.get("/")).json()
    assert pointers.pop("name") == "nonneg"
    assert pointers.pop("version")
    for name, path in pointers.items():
        assert (await client.get(path)).status_code == (405 if name == "embed" else 200), path
    seen = await client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (seen.status_code, seen.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = re.findall(r'href="([^"]+)"', seen.text)
    assert "docs" in links
    for link in links:
        assert (await client.get(f"/{link}")).status_code == 200, link


async def test_no_other_page_would_fetch_from_elsewhere(client: httpx.AsyncClient) -> None:
    for path in ("/redoc", "/docs/oauth2-redirect"):
        assert (await client.get(path)).status_code == 404
    assert (await client.get("/openapi.json")).json()["openapi"].startswith("3.")


async def test_the_host_that_a_client_names_is_text_and_nothing_more(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert "<script>" not in page(document, "http://<script>alert(1)</script>")


GETS = sorted(
    route.path
    for dialect, route, _ in operations()
    if "GET" in (route.methods or ()) and dialect.name != "studio"  # which shows an indexed folder: tests/server/studio
)


@pytest.mark.parametrize("path", [*GETS, "/", "/docs", "/openapi.json"])
async def test_head_answers_as_get_does_without_a_body(client: httpx.AsyncClient, bundle: Bundle, path: str) -> None:
    path = path.format(model="tiny", version="1", dimension="0", example="0")
    asked, got = await client.head(path), await client.get(path)
    assert asked.status_code == got.status_code == 200
    assert asked.content == b""
    assert asked.headers.get("content-type") == got.headers.get("content-type")
    if path != "/metrics":
        assert asked.headers["content-length"] == str(len(got.content))


async def test_head_fails_as_get_does(client: httpx.AsyncClient) -> None:
    assert (await client.head("/models/other")).status_code == 404
    refused = await client.head("/embed")
    assert (refused.status_code, refused.headers["allow"], refused.content) == (405, "POST", b"")
    wrong = await client.delete("/livez")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD")
    both = await client.delete("/")  # two routes, one for each method
    assert (both.status_code, both.headers["allow"]) == (405, "GET, POST, HEAD")


def test_a_real_server_answers_head_and_keeps_the_connection(served: str) -> None:
    with httpx.Client() as client:
        for path in ("/livez", "/models/tiny", "/nothing", "/livez"):
            assert client.head(served + path).content == b""
        assert client.get(served + "/livez").json() == {"status": "alive"}
        assert 'method="HEAD",route="/models/{model}",status="200"' in client.get(served + "/metrics").text
