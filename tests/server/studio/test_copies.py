"""Two photos side by side: copies of one, or merely similar; by the shipped model, at any length."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image, ImageOps

from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings
from nonneg_server.studio.folder import id_of

from .conftest import NAMES, StudioFor

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shipped() -> Iterator[InferenceEngine]:
    found = InferenceEngine(open_bundle("photo-fast"), threads=1, all_cores=False)
    yield found
    found.close()


@pytest.fixture
def cat(photos: Path) -> Image.Image:
    with Image.open(photos / "cat" / "cat-0.jpg") as picture:
        return picture.convert("RGB")


async def compared(shipped: InferenceEngine, one: Image.Image, other: Image.Image, **asked: Any) -> dict[str, Any]:
    app = create_app(Registry(shipped), Settings())
    headers = {"x-nonneg-studio": "1", "content-type": "image/png"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        sent = [await client.post("/studio/uploads", content=png(image), headers=headers) for image in (one, other)]
        a, b = (answer.json()["photo"] for answer in sent)
        answer = await client.get("/studio/pair", params={"a": a, "b": b, **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def half(image: Image.Image) -> Image.Image:
    return image.resize((image.width // 2, image.height // 2), Image.Resampling.BICUBIC)


def grey(image: Image.Image) -> Image.Image:
    return ImageOps.grayscale(image).convert("RGB")


@pytest.mark.parametrize("edit", [half, grey, ImageOps.mirror])
@pytest.mark.parametrize("dimensions", [2048, 16])
async def test_a_copy_is_called_one_at_any_length_though_its_cosine_is_not_large(
    shipped: InferenceEngine, cat: Image.Image, edit: Callable[[Image.Image], Image.Image], dimensions: int
) -> None:
    found = await compared(shipped, cat, edit(cat), dimensions=dimensions)
    assert found["copy"] is True
    assert found["likeness"] > 0.92


@pytest.mark.parametrize("dimensions", [2048, 16])
async def test_a_look_alike_is_not_a_copy_at_any_length(
    shipped: InferenceEngine, cat: Image.Image, dimensions: int
) -> None:
    width, height = cat.size
    left, right = (cat.crop((x, 0, x + width * 2 // 3, height)) for x in (0, width // 3))
    found = await compared(shipped, left, right, dimensions=dimensions)
    assert found["copy"] is False
    assert found["likeness"] < 0.8


async def test_where_a_photo_is_gone_it_is_not_said_whether_two_are_copies(
    studio_for: StudioFor, tmp_path: Path
) -> None:
    async with studio_for(root=tmp_path) as client:
        found = (await client.get("/studio/pair", params={"a": id_of(NAMES[0]), "b": id_of(NAMES[1])})).json()
    assert (found["copy"], found["likeness"]) == (None, None)
    assert 0 < found["cosine"] < 1
