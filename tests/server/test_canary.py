"""The canary: a known picture is sent while serving; a model that answers it wrong takes no more requests."""

from __future__ import annotations

import io
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from nonneg_core.errors import NotReady
from nonneg_core.pixels.view import View
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.runner import test_pattern as pattern
from nonneg_runtime.seeing.preprocess import Preprocessor
from nonneg_server.engine.canary import IMAGES, INTERVAL, Canaries, picture_for
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.vector_cache import Cache
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[0, 4], ids=["by itself", "in batches"])
def warm(bundle: Bundle, request: pytest.FixtureRequest) -> Iterator[InferenceEngine]:
    engine = InferenceEngine(bundle, threads=2, batch=request.param, cache=Cache(100_000))
    engine.warm_up()
    yield engine
    engine.close()


@pytest.fixture
async def client(warm: InferenceEngine) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Registry(warm), Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client


def breaks(engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """Have its session answer everything with the same."""

    def run(pixels: np.ndarray, **_: Any) -> np.ndarray:
        if isinstance(answer, Exception):
            raise answer
        return np.repeat(answer[None], len(pixels), axis=0)

    monkeypatch.setattr(engine.sessions, "run", run)
    if engine._batcher is not None:
        monkeypatch.setattr(engine._batcher, "_run", run)


async def statuses(client: httpx.AsyncClient, image: bytes) -> list[int]:
    paths = ("/livez", "/readyz", "/v2/health/ready", "/v2/models/tiny/ready", "/health")
    asked = [(await client.get(path)).status_code for path in paths]
    return [*asked, (await client.post("/embed", content=image)).status_code]


ONE = np.eye(48, dtype=np.float32)[3]
WRONG = [ONE, np.zeros(48, np.float32), np.full(48, np.nan, np.float32), ValueError("the runtime failed")]


@pytest.mark.parametrize("answer", WRONG, ids=["one vector", "nothing", "no numbers", "an error"])
async def test_a_model_that_answers_everything_alike_takes_no_more_requests_until_it_is_right_again(
    client: httpx.AsyncClient,
    warm: InferenceEngine,
    png: Callable[[int], bytes],
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
) -> None:
    await warm.send_canary()
    assert await statuses(client, png(0)) == [200] * 6
    with monkeypatch.context() as broken:
        breaks(warm, broken, answer)
        await warm.send_canary()
    assert await statuses(client, png(0)) == [200, 503, 503, 503, 503, 503], "known images, too"
    error = (await client.post("/embed", content=png(1))).json()["error"]
    assert (error["type"], error["field"], error["limit"]) == ("not_ready", "canary", 0.999)
    assert error["value"] < 0.999
    await warm.send_canary()
    assert await statuses(client, png(0)) == [200] * 6


async def test_its_cosine_is_a_metric_and_it_counts_as_no_image(
    client: httpx.AsyncClient, warm: InferenceEngine
) -> None:
    used = warm.used
    assert "nonneg_canary_cosine{" not in (await client.get("/metrics")).text
    await warm.send_canary()
    text = (await client.get("/metrics")).text
    assert float(re.findall(r'nonneg_canary_cosine\{model="tiny"\} (\S+)', text)[0]) > 0.9999
    assert 'nonneg_canary_bound{model="tiny"} 0.999' in text
    assert 'nonneg_images_total{model="tiny"} 0.0' in text
    assert warm.cache is not None
    assert (warm.used, warm.stats.weight, warm.cache.misses) == (used, 0, 0)


@pytest.mark.parametrize("view", [View(size=16), View(size=224, crop=0.875), View(size=96, fit="contain")])
def test_the_view_of_the_picture_is_the_pattern(view: View) -> None:
    picture = picture_for(view)
    assert (view.apply(Image.open(io.BytesIO(picture)))[None] == pattern(view.size)).all()
    assert (Preprocessor(view).pixels(picture)[None] == pattern(view.size)).all()


async def test_where_the_view_cuts_between_pixels_the_tested_session_says_what_is_right(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = InferenceEngine(bundle, threads=1)
    engine._preprocessor = Preprocessor(View(size=16, crop=0.9))
    engine.warm_up()
    await engine.send_canary()
    assert engine.canary is not None
    assert engine.canary.works
    assert engine.canary.cosine == pytest.approx(1.0)
    breaks(engine, monkeypatch, ONE)
    await engine.send_canary()
    with pytest.raises(NotReady, match="cosine"):
        engine.canary.check()
    engine.close()


class Sent:
    """Stands for a model: notes when it was sent one."""

    def __init__(self, name: str, rate: float = 100.0) -> None:
        self.name, self.idle, self.canary = name, True, object()
        self.admission = SimpleNamespace(rate=rate)
        self.sessions = SimpleNamespace(session=object())
        self.sent = 0

    async def send_canary(self) -> None:
        self.sent += 1


async def looked(canaries: Canaries, at: float, *engines: Any) -> list[int]:
    canaries.look(at, engines)
    if canaries._task is not None:
        await canaries._task
    return [engine.sent for engine in engines]


async def test_one_is_sent_at_intervals_to_each_model_in_turn_while_a_thread_is_free() -> None:
    canaries, a, b = Canaries(), Sent("a"), Sent("b")
    assert await looked(canaries, 0.0, a, b) == [0, 0], "it has just passed its self-test"
    assert await looked(canaries, INTERVAL, a, b) == [1, 0]
    assert await looked(canaries, INTERVAL + 1, a, b) == [1, 0]
    assert await looked(canaries, 2 * INTERVAL, a, b) == [1, 1]
    a.idle = False
    assert await looked(canaries, 3 * INTERVAL, a) == [1]
    a.idle, a.sessions.session = True, None
    assert await looked(canaries, 3 * INTERVAL + 1, a) == [1], "its weights are not loaded for it"
    a.sessions.session = object()
    assert await looked(canaries, 3 * INTERVAL + 2, a, b) == [2, 1]


async def test_it_costs_less_than_one_image_in_a_thousand() -> None:
    canaries, slow = Canaries(), Sent("slow", rate=2.0)
    await looked(canaries, 0.0, slow)
    assert await looked(canaries, INTERVAL, slow) == [1]
    assert await looked(canaries, INTERVAL + IMAGES / 2.0 - 1, slow) == [1]
    assert await looked(canaries, INTERVAL + IMAGES / 2.0, slow) == [2]


SOON = """
import sys
from nonneg_server.engine import canary
canary.INTERVAL, canary.IMAGES = 0.1, 0
from nonneg_cli.table import main
sys.argv[0] = "nonneg"
main()
"""


@pytest.mark.slow
def test_a_server_sends_it_by_itself(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), "--drain", "0", command=("-c", SOON)) as (address, _):
        end = time.monotonic() + 60
        while 'nonneg_canary_cosine{model="tiny"}' not in httpx.get(f"{address}/metrics").text:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert httpx.get(f"{address}/readyz").status_code == 200
