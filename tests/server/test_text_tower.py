"""Texts for a text tower wait, are bounded, withdrawn and refused in the queue of the images."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
from text_bundle import LENGTH, with_text_tower

from nonneg_core.errors import DeadlineExceeded, Overloaded, ParameterInvalid
from nonneg_core.shortening import unit
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.text_tower import text_tower
from nonneg_server.engine.admission import LARGE_SECONDS, Cost
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded, Text
from nonneg_server.engine.vector_cache import Cache
from nonneg_server.engine.workers import Workers
from nonneg_server.models.served_models import Registry
from nonneg_server.observation.server_metrics import METRICS
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.anyio
DOG = Text("a photo of a dog", "texts[0]")
LONG = "a photo of a dog of a dog"


@pytest.fixture(scope="module")
def towers(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return with_text_tower(bundle, tmp_path_factory.mktemp("towers"))


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(2, max_images=4, max_bytes=1 << 20)
    yield made
    made.close()


@pytest.fixture
def engine(towers: Bundle, workers: Workers) -> InferenceEngine:
    return InferenceEngine(towers, workers=workers)


@pytest.fixture
async def client(engine: InferenceEngine) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Registry(engine), Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client


@contextmanager
def jammed(workers: Workers, count: int, cost: Cost | None = None) -> Iterator[None]:
    """So many jobs that do not end before the block is left."""
    gate = threading.Event()
    busy = [workers.pool.submit(lambda: gate.wait(10), cost, request=i) for i in range(count)]
    try:
        yield
    finally:
        gate.set()
        for job in busy:
            job.result(60)


def expected(towers: Bundle, text: str = DOG.text) -> np.ndarray:
    tower = text_tower(towers)
    assert tower is not None
    return unit(tower.embed(text))


async def test_a_text_is_one_of_the_jobs_in_flight_and_is_refused_where_these_are_too_many(
    engine: InferenceEngine, towers: Bundle, workers: Workers, client: httpx.AsyncClient
) -> None:
    with jammed(workers, 2):
        waiting = [asyncio.create_task(engine.encode_all([DOG])) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert (workers.admission.images, workers.admission.bytes) == (3, 3 * DOG.weight)
        with pytest.raises(Overloaded):
            await engine.encode_all([DOG, DOG])
        refused = await client.post("/embed", json={"texts": [DOG.text] * 2})
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
    for (found,) in await asyncio.gather(*waiting):
        assert isinstance(found, Encoded)
        np.testing.assert_allclose(found.vector, expected(towers), atol=1e-6)
    assert workers.admission.images == 0


async def test_a_text_whose_client_has_gone_or_whose_time_is_up_is_withdrawn(
    engine: InferenceEngine, workers: Workers
) -> None:
    with jammed(workers, 2):
        asked = asyncio.create_task(engine.encode_all([DOG]))
        await asyncio.sleep(0.05)
        asked.cancel()
        await asyncio.wait([asked])
        with pytest.raises(DeadlineExceeded):
            await engine.encode_all([DOG], deadline=asyncio.get_running_loop().time() + 0.05)
        assert workers.pool.waiting == 0
    assert engine.stats.texts == 0


async def test_a_text_does_not_wait_behind_large_images(engine: InferenceEngine, workers: Workers) -> None:
    with jammed(workers, 3, Cost(2 * LARGE_SECONDS)):
        (found,) = await asyncio.wait_for(engine.encode_all([DOG]), 5)
        assert isinstance(found, Encoded)
        assert workers.pool.waiting == 2


async def test_each_text_has_its_own_error_at_its_place(client: httpx.AsyncClient, towers: Bundle) -> None:
    inputs = [{"text": DOG.text}, {"text": LONG}, {"text": " "}]
    data = (await client.post("/embed", json={"inputs": inputs, "format": "dense"})).json()["data"]
    np.testing.assert_allclose(data[0]["embedding"], expected(towers), atol=1e-6)
    assert [data[i]["error"]["field"] for i in (1, 2)] == ["inputs[1].text", "inputs[2].text"]
    alone = await client.post("/embed", json={"texts": [LONG]})
    assert (alone.status_code, alone.json()["error"]["limit"]) == (422, LENGTH)
    assert (await client.post("/embed", json={"texts": [LONG], "truncate": True})).status_code == 200


async def test_texts_are_counted_apart_from_images_whose_drift_they_would_change(
    client: httpx.AsyncClient, png: Callable[[int], bytes]
) -> None:
    await client.post("/embed", json={"texts": [DOG.text] * 3})
    await client.post("/embed", content=png(0), headers={"content-type": "image/png"})
    lines = (await client.get("/metrics")).text.splitlines()
    assert "nonneg_texts" in METRICS
    assert {'nonneg_texts_total{model="towers"} 3.0', 'nonneg_images_total{model="towers"} 1.0'} <= set(lines)


async def test_a_query_has_its_texts_embedded_in_the_queue(
    client: httpx.AsyncClient, engine: InferenceEngine, towers: Bundle
) -> None:
    answer = (await client.post("/query", json={"expression": '"a dog" + 2*"a cat"'})).json()
    found = np.zeros(towers.manifest.dimensions)
    found[answer["parts"][0]["indices"]] = answer["parts"][0]["values"]
    wanted = expected(towers, "a dog") + 2 * expected(towers, "a cat")
    np.testing.assert_allclose(found, unit(wanted), atol=1e-5)
    assert engine.stats.texts == 2
    refused = await client.post("/query", json={"expression": f'"a dog" - "{LONG}"'})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "expression[10]")


async def test_a_cache_knows_a_text_again_but_not_as_an_image_or_cut(towers: Bundle, workers: Workers) -> None:
    engine = InferenceEngine(towers, workers=workers, cache=Cache(1 << 20))
    for text in (DOG, DOG, Text(DOG.text, "texts[0]", truncate=True)):
        (found,) = await engine.encode_all([text])
        assert isinstance(found, Encoded)
        np.testing.assert_allclose(found.vector, expected(towers), atol=1e-6)
    (image,) = await engine.encode_all([DOG.text.encode()])
    assert not isinstance(image, Encoded)
    assert engine.stats.texts == 2


async def test_a_tower_that_rests_gives_its_memory_back_and_is_loaded_again(engine: InferenceEngine) -> None:
    engine.warm_up()
    whole = engine.sessions.weight
    files = engine.bundle.manifest.files
    assert whole == files["encoder.onnx"].bytes + files["text.onnx"].bytes
    engine.sessions.unload()
    assert (engine.sessions.loaded, engine.sessions.weight) == (False, 0)
    (found,) = await engine.encode_all([DOG])
    assert isinstance(found, Encoded)
    assert (engine.sessions.loaded, engine.sessions.weight) == (True, files["text.onnx"].bytes)


async def test_beside_a_device_that_takes_batches_texts_run_on_the_threads(
    towers: Bundle, workers: Workers, png: Callable[[int], bytes]
) -> None:
    engine = InferenceEngine(towers, workers=workers, batch=4)
    long = Text(LONG, "texts[2]")
    text, image, wrong = await engine.encode_all([DOG, png(0), long])
    assert isinstance(text, Encoded)
    assert isinstance(image, Encoded)
    assert isinstance(wrong, ParameterInvalid)
    assert wrong.field == "texts[2]"
    np.testing.assert_allclose(text.vector, expected(towers), atol=1e-6)
    engine.close()


def test_the_encoder_of_sentences_is_opened_when_a_text_first_comes(workers: Workers) -> None:
    engine = InferenceEngine(open_bundle(), workers=workers)
    before = engine.sessions.weight
    engine.warm_up()
    assert engine.sessions.weight == before
    assert engine.sessions.text() is not None
    assert engine.sessions.weight > before
    engine.close()
