"""The client against the real server: whatever is given, the same photo gives the same vector."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nonneg_client import AsyncClient, Client, Encoder
from nonneg_core.errors import (
    ConfigInvalid,
    ConnectionFailed,
    DataInvalid,
    ImageUnreadable,
    ImageUnsupported,
    ModelNotFound,
    ParameterInvalid,
)


@pytest.fixture(scope="module")
def files(photos: Path) -> list[Path]:
    return sorted(photos.rglob("*.jpg"))


@pytest.fixture(scope="module")
def expected(client, files):
    return client.embed(files)


def test_a_folder_a_glob_and_a_list_of_paths_are_the_same(client, photos, files, expected):
    assert expected.ids == tuple(map(str, files))
    for images in (photos, str(photos), f"{photos}/**/*.jpg", [str(f) for f in files], (f for f in files)):
        same = client.embed(images)
        assert same.ids == expected.ids
        np.testing.assert_array_equal(same.numpy(), expected.numpy())


def test_bytes_pil_images_and_arrays_are_the_same(client, files, expected):
    with Image.open(files[0]) as picture:
        picture.load()
    pixels = np.asarray(picture)
    for image in (files[0].read_bytes(), memoryview(files[0].read_bytes()), picture, pixels):
        np.testing.assert_allclose(client.embed(image).numpy(), expected[0].numpy(), atol=1e-6)


def test_a_batch_of_arrays_is_many_images(client):
    pixels = np.zeros((3, 40, 50, 3), np.uint8)
    pixels[1] += 128
    embeddings = client.embed(pixels)
    assert embeddings.ids == ("0", "1", "2")


def test_sources_may_be_mixed(client, files):
    with Image.open(files[2]) as picture:
        embeddings = client.embed([files[0], files[1].read_bytes(), picture])
    assert len(embeddings) == 3
    assert embeddings.ids[0] == str(files[0])
    assert embeddings.ids[1] == "1"


def test_a_url_is_fetched_by_the_client(client, photos, files, expected):
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: handler(*a, directory=str(photos))) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{web.server_port}"
        found = client.embed(f"{url}/{files[0].relative_to(photos)}")
        with pytest.raises(DataInvalid, match="answers 404"):
            client.embed(f"{url}/nothing.jpg")
        web.shutdown()
    np.testing.assert_array_equal(found.numpy(), expected[0].numpy())


def test_the_asynchronous_client_finds_the_same(server, photos, expected):
    async def both():
        async with AsyncClient(server) as client:
            assert await client.ready()
            models = await client.models()
            return models, await client.embed(photos), await client.embed(iter([photos]), dimensions=64)

    models, full, short = asyncio.run(both())
    assert models["models"][0]["fingerprint"] == full.fingerprint
    assert full.ids == expected.ids
    np.testing.assert_array_equal(full.numpy(), expected.numpy())
    np.testing.assert_allclose(short.numpy(), expected.shorten(64).numpy(), atol=1e-6)


@pytest.mark.parametrize(("dimensions", "top_k", "normalize"), [(64, None, True), (None, 5, True), (128, 9, False)])
def test_the_server_shortens_as_the_client_does(client, files, dimensions, top_k, normalize):
    raw = client.embed(files[:3], normalize=False)
    by_server = client.embed(files[:3], dimensions=dimensions, top_k=top_k, normalize=normalize)
    by_client = raw.shorten(dimensions, top_k, normalize=normalize)
    np.testing.assert_allclose(by_server.numpy(), by_client.numpy(), atol=1e-5, rtol=1e-5)
    assert by_server.normalized is normalize


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_the_size_of_a_request_changes_nothing(server, files, expected, batch_size):
    with Client(server, batch_size=batch_size, in_flight=2) as client:
        embeddings = client.embed(files)
    assert embeddings.ids == expected.ids
    np.testing.assert_allclose(embeddings.numpy(), expected.numpy(), atol=1e-6)


def test_a_broken_image_raises_and_is_named(client, files, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(files[0].read_bytes()[:2000])
    for images in (broken, [files[0], broken]):  # alone in its request, and beside another
        with pytest.raises(ImageUnreadable, match=r"broken\.jpg"):
            client.embed(images)


def test_failures_may_be_returned_as_values(client, files, expected, tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    embeddings = client.embed([files[0], tmp_path / "text.jpg", "/nowhere.jpg", files[1]], on_error="return")
    assert embeddings.ids == (str(files[0]), str(files[1]))
    np.testing.assert_array_equal(embeddings.numpy(), expected[:2].numpy())
    kinds = {Path(failure.id).name: type(failure.error) for failure in embeddings.failures}
    assert kinds == {"text.jpg": ImageUnsupported, "nowhere.jpg": DataInvalid}


def test_when_nothing_could_be_embedded_the_first_reason_is_told(client):
    with pytest.raises(DataInvalid, match=r"none of 2 images.*not an image of a known format"):
        client.embed([b"a", b"b"], on_error="return")


def test_the_servers_errors_keep_their_type_and_their_details(client, files):
    with pytest.raises(ParameterInvalid) as caught:
        client.embed(files[0], dimensions=99_999)
    assert caught.value.field == "dimensions"
    assert caught.value.limit == client.models()["models"][0]["dimensions"]
    assert "at most" in caught.value.fix
    assert caught.value.request_id
    with pytest.raises(ModelNotFound):
        client.embed(files[0], model="unknown")


def test_a_server_that_is_not_there_is_said_at_once():
    with Client("http://127.0.0.1:9") as client, pytest.raises(ConnectionFailed, match="cannot be reached") as caught:
        client.embed(b"x")
    assert "nonneg serve" in caught.value.fix


def test_address_and_key_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("NONNEG_URL", "http://example.test:1/")
    monkeypatch.setenv("NONNEG_API_KEY", "secret")
    with Client() as client:
        assert client.settings.url == "http://example.test:1"
        assert client.settings.headers()["Authorization"] == "Bearer secret"
    with Client("http://other.test", api_key="mine") as client:
        assert (client.settings.url, client.settings.api_key) == ("http://other.test", "mine")


@pytest.mark.parametrize(
    "wrong", [{"url": "localhost"}, {"in_flight": 0}, {"batch_size": 0}, {"timeout": 0}, {"api_key": "a\nb"}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigInvalid):
        Client(**wrong)


def test_progress_is_told_image_by_image_and_adds_up(server, files):
    told = []
    with Client(server, batch_size=10) as client:
        client.embed(files, progress=lambda done, total: told.append((done, total)))
        client.embed(iter(files), progress=lambda done, total: told.append((done, total)))
    assert told == [(10, 35), (20, 35), (30, 35), (35, 35), (10, None), (20, None), (30, None), (35, None)]


def test_a_progress_bar_may_be_asked_for_and_goes_to_standard_error(client, files, capsys):
    client.embed(files[:2], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "embedding" in shown.err
    client.embed(files[:2])
    assert capsys.readouterr() == ("", "")


def test_an_image_is_only_downscaled_when_asked(client):
    large = Image.effect_noise((1600, 1200), 60).convert("RGB")
    buffer = io.BytesIO()
    large.save(buffer, "JPEG")
    full, small = client.embed(buffer.getvalue()), client.embed(buffer.getvalue(), downscale=512)
    assert 0.9 < float((full.numpy() * small.numpy()).sum()) < 0.99999


@pytest.mark.parametrize("nonsense", [3, None, [["a.jpg"]], [3.5], np.zeros((4, 4)), np.zeros((0, 4, 3), np.uint8)])
def test_what_is_not_an_image_is_refused_before_anything_is_sent(client, nonsense):
    with pytest.raises(DataInvalid):
        client.embed(nonsense)


def test_a_folder_may_hold_links_back_pipes_and_names_that_are_no_utf8(client, files, tmp_path):
    photo = Path(files[0]).read_bytes()
    (tmp_path / "a.jpg").write_bytes(photo)
    (tmp_path / "back").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jpg")
    with open(os.fsencode(tmp_path) + b"/\xff.jpg", "wb") as file:  # noqa: PTH123  a path of bytes
        file.write(photo)
    found = client.embed(tmp_path)
    assert found.ids == (f"{tmp_path}/a.jpg", rf"{tmp_path}/\xff.jpg")


def test_links_through_a_second_folder_are_followed_once_and_links_to_pipes_never(client, files, tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo.jpg").write_bytes(Path(files[0]).read_bytes())
    (tmp_path / "a" / "z").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "z").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.jpg").symlink_to("pipe")
    monkeypatch.chdir(tmp_path)
    assert client.embed(".").ids == ("a/photo.jpg", "a/z/photo.jpg", "b/photo.jpg", "b/z/photo.jpg")


def test_no_images_at_all_is_said(client, tmp_path):
    with pytest.raises(DataInvalid, match="no images to embed"):
        client.embed([])
    with pytest.raises(DataInvalid, match=r"holds no images: give a folder with \.jpg, \.png"):
        client.embed(tmp_path)
    with pytest.raises(DataInvalid, match="no file matches"):
        client.embed(f"{tmp_path}/*.jpg")
    with pytest.raises(DataInvalid, match="empty path"):
        client.embed("")


def test_a_client_that_is_closed_and_a_choice_that_is_none_are_said(server, files):
    client = Client(server)
    with pytest.raises(ConfigInvalid, match="on_error='ignore'"):
        client.embed(files[0], on_error="ignore")
    client.close()
    with pytest.raises(ConfigInvalid, match="closed"):
        client.embed(files[0])


def test_a_failed_image_is_named_once(client):
    with pytest.raises(DataInvalid) as caught:
        client.embed("/nowhere.jpg")
    assert caught.value.message.count("/nowhere.jpg") == 1


def test_a_stream_of_images_is_not_read_ahead_without_bound(server, files):
    drawn = []

    def endless():
        while True:
            drawn.append(1)
            yield files[0]

    with Client(server, in_flight=2, batch_size=1) as client:
        from nonneg_client.sources.image_sources import items
        from nonneg_client.wire.protocol import Options

        stream = client.stream(items(endless()), Options())
        next(stream)
        stream.close()
    assert len(drawn) <= 6


def test_many_threads_may_share_a_client(client, files, expected):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: client.embed(files[i]).numpy(), range(8)))
    np.testing.assert_allclose(np.concatenate(found), expected[:8].numpy(), atol=1e-6)


def test_a_models_dimensions_are_listed_over_all_pages(client, server):
    everything = client.dimensions()
    assert [item["dimension"] for item in everything] == list(range(client.model().dimensions))
    named = client.dimensions("photo", named=True, sort="name")
    assert [item["name"] for item in named] == sorted((item["name"] for item in named), key=str.casefold)
    assert {item["dimension"] for item in named} == {item["dimension"] for item in everything if item["name"]}

    async def ask():
        async with AsyncClient(server) as other:
            return await other.dimensions(contains="tench")

    assert [item["name"] for item in asyncio.run(ask())] == ["tench"]


def test_bits_have_one_form_by_a_server_and_in_this_process(client, server, expected):
    async def ask():
        async with AsyncClient(server) as other:
            return await other.bit_form()

    with Encoder() as encoder:
        forms = [client.bit_form(), asyncio.run(ask()), encoder.bit_form()]
    assert {len(form) for form in forms} == {1280}
    first, *others = [form.pack(expected.numpy()) for form in forms]
    assert first.shape == (len(expected), 160)
    for packed in others:
        np.testing.assert_array_equal(packed, first)


def test_a_model_is_asked_for_by_its_name(client, server):
    first = client.model()
    assert client.model(first.name) == first
    with pytest.raises(ModelNotFound):
        client.model("no such model")

    async def ask():
        async with AsyncClient(server) as other:
            return await other.model(), await other.model(first.name)

    assert asyncio.run(ask()) == (first, first)
