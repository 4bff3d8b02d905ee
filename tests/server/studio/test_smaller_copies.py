"""Small pictures: made by the workers within the limits of the server, made again when the file changed, bounded."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from PIL import Image

from nonneg_core.errors import NotFound
from nonneg_core.files import image_files
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.shortening import Vectors
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.workers import Workers
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings
from nonneg_server.studio.folder import id_of
from nonneg_server.studio.pictures import MOST, THUMBNAIL, SmallerCopies, Thumbnails, Upload, Uploads

from .conftest import HOME, NAMES, StudioFor

pytestmark = pytest.mark.anyio
A = id_of(NAMES[0])
SENT = {"x-nonneg-studio": "1", "content-type": "image/png"}


@contextmanager
def kept_busy(workers: Workers) -> Iterator[None]:
    """Every thread has something else to do."""
    done = threading.Event()
    for _ in range(workers.threads):
        workers.pool.submit(lambda: done.wait(60))
    try:
        yield
    finally:
        done.set()


async def test_they_wait_in_the_queue_until_the_deadline(studio: httpx.AsyncClient, engine: InferenceEngine) -> None:
    with kept_busy(engine.workers):
        for what in ("thumbnail", "image"):
            late = await studio.get(f"/studio/photos/{A}/{what}", headers={"x-request-timeout": "0.05"})
            assert (late.status_code, engine.workers.pool.waiting) == (504, 0), what
    assert (await studio.get(f"/studio/photos/{A}/thumbnail")).status_code == 200


async def test_they_are_made_within_the_limits_of_the_server(studio_for: StudioFor) -> None:
    async with studio_for(max_pixels=1199) as client:  # of 40 x 30
        for what in ("thumbnail", "image"):
            refused = await client.get(f"/studio/photos/{A}/{what}")
            assert (refused.status_code, refused.json()["error"]["limit"]) == (413, 1199), what


@pytest.mark.parametrize(
    ("size", "expected"), [((640, 320), (320, 160)), ((7, 3), (7, 3)), ((1, 900), (1, 320)), ((320, 320), (320, 320))]
)
async def test_a_photo_keeps_its_shape_and_is_never_enlarged(size: tuple[int, int], expected: tuple[int, int]) -> None:
    workers, buffer = Workers(1), io.BytesIO()
    Image.new("RGB", size, (200, 30, 90)).save(buffer, "PNG")
    made = await SmallerCopies(workers, max_pixels=MAX_PIXELS).make(buffer.getvalue(), THUMBNAIL)
    workers.close()
    with Image.open(io.BytesIO(made)) as small:
        assert small.size == expected
        colours = small.getextrema()
    assert all(abs(found - meant) < 8 for pair, meant in zip(colours, (200, 30, 90), strict=True) for found in pair)


@pytest.mark.slow
async def test_an_avif_is_decoded_in_a_process_of_its_own() -> None:
    children = Path(f"/proc/{os.getpid()}/task")
    if not children.exists():
        pytest.skip("no /proc here")

    def count() -> int:
        return sum(len((task / "children").read_text().split()) for task in children.iterdir())

    workers, buffer = Workers(1), io.BytesIO()
    Image.new("RGB", (640, 320), "red").save(buffer, "AVIF")
    before = count()
    made = await SmallerCopies(workers, max_pixels=MAX_PIXELS).make(buffer.getvalue(), THUMBNAIL)
    assert count() == before + 1
    workers.close()
    with Image.open(io.BytesIO(made)) as small:
        assert small.size == (320, 160)


async def test_an_edited_photo_is_shown_as_it_is_now_and_one_that_is_not_is_not_sent_twice(
    studio_for: StudioFor, tmp_path: Path
) -> None:
    photo = tmp_path / NAMES[0]
    photo.parent.mkdir()
    Image.new("RGB", (40, 30), "red").save(photo)
    async with studio_for(root=tmp_path) as client:
        for what in ("thumbnail", "image"):
            Image.new("RGB", (40, 30), "red").save(photo)
            first = await client.get(f"/studio/photos/{A}/{what}")
            tag = {"if-none-match": first.headers["etag"]}
            again = await client.get(f"/studio/photos/{A}/{what}", headers=tag)
            assert (again.status_code, again.content) == (304, b"")
            assert "no-cache" in first.headers["cache-control"]
            Image.new("RGB", (20, 10), "blue").save(photo)
            edited = await client.get(f"/studio/photos/{A}/{what}", headers=tag)
            with Image.open(io.BytesIO(edited.content)) as shown:
                assert (edited.status_code, shown.size) == (200, (20, 10))


@pytest.mark.parametrize("what", ["a pipe", "a folder", "a link", "more than any photo"])
async def test_a_photo_in_whose_place_something_else_lies_is_gone_at_once(
    studio_for: StudioFor, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / NAMES[0]
    path.parent.mkdir()
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a folder":
        path.mkdir()
    elif what == "a link":
        path.symlink_to("/etc/hostname")
    else:
        Image.new("RGB", (40, 30), "red").save(path)
        monkeypatch.setattr(image_files, "LARGEST", path.stat().st_size - 1)
    async with studio_for(root=tmp_path) as client:
        answer = await asyncio.wait_for(client.get(f"/studio/photos/{A}/image"), 20)
    assert answer.status_code == 404
    assert "not there any more" in answer.text


def test_thumbnails_take_no_more_than_their_bytes_and_those_asked_for_last_stay() -> None:
    kept = Thumbnails(most=100)
    for i in range(10):
        kept.put(f"photo-{i}", "then", bytes(30))
        assert kept.get("photo-0", "then") is not None
    assert kept.bytes == 90
    assert [i for i in range(10) if kept.get(f"photo-{i}", "then")] == [0, 8, 9]
    kept.put("photo-9", "then", bytes(10))
    assert kept.bytes == 70
    kept.put("large", "then", bytes(101))
    assert (kept.bytes, kept.get("large", "then")) == (0, None)


def test_the_oldest_dropped_photo_is_forgotten_beyond_the_last_few(vectors: Vectors) -> None:
    held = Uploads()
    names = [held.add(Upload(vectors[0], "a model", bytes([i]))) for i in range(MOST + 1)]
    assert [held.get(name).picture for name in names[1:]] == [bytes([i]) for i in range(1, MOST + 1)]
    with pytest.raises(NotFound, match="no longer holds"):
        held.get(names[0])


async def test_a_photo_dropped_before_another_model_took_the_name_is_to_be_dropped_again(
    bundle: Bundle, make_bundle: Callable[..., Bundle], png: Callable[[int], bytes], tmp_path: Path
) -> None:
    registry = Registry(InferenceEngine(bundle, threads=1))
    app = create_app(registry, Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOME) as client:

        async def drop() -> str:
            answer = await client.post("/studio/uploads", content=png(1), headers=SENT)
            return str(answer.json()["photo"])

        old = await drop()
        registry.get().close()
        registry.put(InferenceEngine(make_bundle(tmp_path, seed=1), threads=1))
        new = await drop()
        for path in (f"/studio/photos/{old}", f"/studio/pair?a={old}&b={new}"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["error"].get("fix")) == (404, "drop it on the page again"), path
        assert (await client.get(f"/studio/photos/{old}/thumbnail")).status_code == 200
        assert (await client.get(f"/studio/photos/{new}")).status_code == 200
    registry.close()
