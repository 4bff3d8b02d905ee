"""Texts in the studio's search box, for a model with a text tower: embedded once, in the queue of the images."""

from __future__ import annotations

from dataclasses import replace

import httpx
import numpy as np
import pytest
from text_bundle import with_text_tower

from nonneg_core.shortening import Vectors, shorten, unit
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings
from nonneg_vectors.curation.collection import Collection

from .conftest import HOME, NAMES

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.anyio


async def test_a_text_finds_the_photos_that_are_nearest_to_what_its_tower_answers(
    bundle: Bundle, collection: Collection, vectors: Vectors, tmp_path_factory: pytest.TempPathFactory
) -> None:
    towers = with_text_tower(bundle, tmp_path_factory.mktemp("studio-towers"))
    engine = InferenceEngine(towers, threads=2)
    rows = replace(collection.vectors, fingerprint=towers.manifest.fingerprint)
    app = create_app(Registry(engine), Settings(), collection=replace(collection, vectors=rows))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOME) as studio:
        asked = {"expression": '"a dog"', "dimensions": 20, "top_k": 3}
        answer = await studio.get("/studio/search", params=asked)
        refused = await studio.get("/studio/search", params={"expression": '"a dog of a dog of a dog"'})
    assert answer.status_code == 200, answer.text
    tower = engine.sessions.text()
    assert tower is not None
    cosines = shorten(vectors, 20, 3) @ unit(tower.embed("a dog")[:20])
    for hit in answer.json()["hits"]:
        assert hit["score"] == pytest.approx(cosines[NAMES.index(hit["name"])], abs=1e-5)
    assert answer.json()["total"] == np.count_nonzero(cosines > 0)
    assert engine.stats.texts == 1
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "expression[0]")
    engine.close()
