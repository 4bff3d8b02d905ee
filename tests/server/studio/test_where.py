"""The shipped model says where its dimensions come from, by /explain and for a dropped photo."""

from __future__ import annotations

import io
import threading
from collections.abc import AsyncIterator

import httpx
import numpy as np
import pytest
from PIL import Image

from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.vector_cache import Cache
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio


def picture(seed: int, kind: str = "PNG") -> bytes:
    small = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    small.resize((300, 200), Image.Resampling.BICUBIC).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
async def photo_fast() -> AsyncIterator[httpx.AsyncClient]:
    engine = InferenceEngine(open_bundle("photo-fast"), threads=1, all_cores=False)
    app = create_app(Registry(engine), Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client
    engine.close()


async def test_cells_sum_to_the_values_that_they_explain(photo_fast: httpx.AsyncClient) -> None:
    files = [("images", picture(1)), ("images", picture(2))]
    body = (await photo_fast.post("/explain?where=1&limit=5", files=files)).json()
    view = open_bundle("photo-fast").manifest.view
    assert body["boxes"] == [pytest.approx(view.seen_of((300, 200)))] * 2
    assert len(body["contributions"]) == 5
    for one in body["contributions"]:
        for cells, value in zip(one["cells"], one["values"], strict=True):
            assert np.shape(cells) == (7, 7)
            assert np.sum(cells) == pytest.approx(value, rel=1e-3)
    assert "boxes" not in (await photo_fast.post("/explain", files=files)).json()


@pytest.mark.slow
async def test_the_box_of_a_picture_that_is_decoded_apart_is_that_of_any_other(photo_fast: httpx.AsyncClient) -> None:
    files = [("images", picture(1, kind)) for kind in ("PNG", "AVIF")]
    png, avif = (await photo_fast.post("/explain?where=1&limit=1", files=files)).json()["boxes"]
    assert png == avif
    assert png[2] < 1


async def test_locating_waits_in_the_queue_until_the_deadline_of_the_request() -> None:
    """The vectors are remembered, so that only the locating is left to be done."""
    engine = InferenceEngine(open_bundle("photo-fast"), threads=1, all_cores=False, cache=Cache(10**6))
    app = create_app(Registry(engine), Settings())
    files = [("images", picture(1)), ("images", picture(2))]
    done = threading.Event()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        assert (await client.post("/explain?where=1", files=files)).status_code == 200
        engine.workers.pool.submit(lambda: done.wait(60))
        late = await client.post("/explain?where=1", files=files, headers={"x-request-timeout": "0.2"})
        done.set()
        assert (late.status_code, engine.workers.pool.waiting, engine.admission.images) == (504, 0, 0)
        assert (await client.post("/explain?where=1", files=files)).status_code == 200
    engine.close()


async def test_a_dropped_photo_shows_where(photo_fast: httpx.AsyncClient) -> None:
    headers = {"x-nonneg-studio": "1", "content-type": "image/png"}
    sent = (await photo_fast.post("/studio/uploads", content=picture(1), headers=headers)).json()
    j = sent["bars"][0]["dimension"]
    body = (await photo_fast.get(f"/studio/photos/{sent['photo']}/where", params={"dimension": j})).json()
    assert np.sum(body["cells"]) == pytest.approx(body["strength"], rel=1e-3)
    assert body["strength"] == pytest.approx(sent["bars"][0]["value"], rel=1e-3)  # of the model that is served
    assert (await photo_fast.get(f"/studio/photos/{sent['photo']}/where?dimension=99999")).status_code == 404
