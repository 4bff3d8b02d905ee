"""A folder whose index holds the first dimensions of each vector alone, as `nonneg index --dimensions` makes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import httpx
import pytest

from nonneg_core.shortening import Vectors, shorten
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings
from nonneg_server.studio.folder import id_of
from nonneg_vectors.curation.collection import Collection

from .conftest import HOME, NAMES

pytestmark = pytest.mark.anyio
WIDTH = 20


@pytest.fixture
async def short(registry: Registry, collection: Collection) -> AsyncIterator[httpx.AsyncClient]:
    cut = replace(collection, vectors=collection.vectors.shorten(WIDTH))
    app = create_app(registry, Settings(), collection=cut)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOME) as client:
        yield client


async def test_it_is_searched_within_what_it_holds(short: httpx.AsyncClient, vectors: Vectors) -> None:
    assert (await short.get("/studio")).json()["dimensions"] == WIDTH
    answer = await short.get("/studio/search", params={"expression": f"{NAMES[0]} + dim:40 !dim:41"})
    assert answer.status_code == 200, answer.text
    z = shorten(vectors, WIDTH)
    for hit in answer.json()["hits"]:
        assert hit["score"] == pytest.approx(z[0] @ z[NAMES.index(hit["name"])], abs=1e-5)
    assert [leaf["dimension"] for leaf in answer.json()["left_out"]] == [40, 41]
    assert answer.json()["facets"]


async def test_what_it_does_not_hold_is_refused_as_a_condition_and_has_no_photos(short: httpx.AsyncClient) -> None:
    refused = await short.get("/studio/search", params={"expression": NAMES[0], "only": 40})
    assert (refused.status_code, refused.json()["error"]["limit"]) == (422, WIDTH - 1)
    assert (await short.get("/studio/dimensions/40")).json()["here"] is None
    assert (await short.get(f"/studio/photos/{id_of(NAMES[0])}")).json()["dimensions"] == WIDTH


async def test_a_dropped_photo_is_compared_with_one_of_it(
    short: httpx.AsyncClient, png: Callable[[int], bytes]
) -> None:
    headers = {"x-nonneg-studio": "1", "content-type": "image/png"}
    sent = (await short.post("/studio/uploads", content=png(0), headers=headers)).json()
    answer = await short.get("/studio/pair", params={"a": sent["photo"], "b": id_of(NAMES[0])})
    assert answer.status_code == 200, answer.text
    assert answer.json()["cosine"] == pytest.approx(1, abs=1e-3)
    assert answer.json()["copy"] is True
