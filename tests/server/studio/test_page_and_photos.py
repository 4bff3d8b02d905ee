"""The page, its photos, and who may see them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from PIL import Image

from nonneg_core.shortening import Vectors
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.words.column_facts import chance_of
from nonneg_server.studio.browser_access import FOLDER, assets
from nonneg_server.studio.folder import id_of

from .conftest import NAMES, StudioFor

pytestmark = pytest.mark.anyio
HTML = {"accept": "text/html"}
MEANT = {"x-nonneg-studio": "1"}
A = id_of(NAMES[0])


def size_of(content: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(content)).size


async def test_a_browser_is_given_the_page_under_a_strict_policy(studio: httpx.AsyncClient) -> None:
    seen = await studio.get("/", headers=HTML)
    assert "nonneg studio" in seen.text
    policy = seen.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for path in re.findall(r'(?:href|src)="(/studio/page/[^"]+)"', seen.text):
        assert (await studio.get(path)).status_code == 200, path
    assert (await studio.get("/")).json()["docs"] == "/docs"


async def test_the_page_asks_for_nothing_from_elsewhere_and_is_small() -> None:
    sizes = [len(found.content) for found in assets().values()]
    assert sum(sizes) <= 300_000
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|eval\(", text), path.name


async def test_a_file_of_the_page_is_not_sent_twice(studio: httpx.AsyncClient) -> None:
    first = await studio.get("/studio/page/app.js")
    again = await studio.get("/studio/page/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


@pytest.mark.parametrize("name", ["..%2fstudio.py", "index.html%00", "__init__.py", "app.js%2f..%2fapi.js", "x" * 500])
async def test_no_other_file_is_served(studio: httpx.AsyncClient, name: str) -> None:
    assert (await studio.get(f"/studio/page/{name}")).status_code == 404


FOREIGN = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "", "10.0.0.1"]


@pytest.mark.parametrize("host", FOREIGN)
async def test_a_foreign_host_sees_neither_page_nor_photos(studio: httpx.AsyncClient, host: str) -> None:
    assert "nonneg studio" not in (await studio.get("/", headers={**HTML, "host": host})).text
    for path in ("/studio", "/studio/photos", f"/studio/photos/{A}/thumbnail", "/studio/page/app.js"):
        refused = await studio.get(path, headers={"host": host})
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "forbidden"), path


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "[::1]:8000"])
async def test_this_machines_own_names_are_welcome(studio: httpx.AsyncClient, host: str) -> None:
    assert (await studio.get("/studio", headers={"host": host})).status_code == 200


async def test_another_sites_page_is_refused_by_what_the_browser_says_of_it(studio: httpx.AsyncClient) -> None:
    path = f"/studio/photos/{A}/thumbnail"
    assert (await studio.get(path, headers={"sec-fetch-site": "cross-site"})).status_code == 403
    assert (await studio.get(path, headers={"sec-fetch-site": "same-origin"})).status_code == 200


async def test_on_other_than_loopback_the_studio_is_off_unless_it_is_asked_for(studio_for: StudioFor) -> None:
    async with studio_for(host="0.0.0.0") as closed:
        assert (await closed.get("/studio")).status_code == 404
        assert "nonneg studio" not in (await closed.get("/", headers=HTML)).text
        assert (await closed.get("/studio/page/app.js")).status_code == 404
    async with studio_for(host="0.0.0.0", studio=True, allow_host="photos.example.org") as opened:
        for host, status in (("192.168.1.7:8000", 200), ("photos.example.org", 200), ("evil.example", 403)):
            assert (await opened.get("/studio", headers={"host": host})).status_code == status, host


async def test_with_keys_the_page_comes_without_one_and_the_photos_do_not(studio_for: StudioFor) -> None:
    key = "a key of this test"
    async with studio_for(api_key=key) as client:
        assert "nonneg studio" in (await client.get("/", headers=HTML)).text
        assert (await client.get("/studio/page/app.js")).status_code == 200
        for path in ("/studio", f"/studio/photos/{A}/thumbnail", f"/studio/photos/{A}/image"):
            assert (await client.get(path)).status_code == 401, path
            assert (await client.get(path, headers={"x-api-key": key})).status_code == 200, path


async def test_a_photo_is_shown_small_by_its_id(studio: httpx.AsyncClient) -> None:
    for what in ("thumbnail", "image"):
        answer = await studio.get(f"/studio/photos/{A}/{what}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert size_of(answer.content) == (40, 30)


async def test_a_photo_is_turned_upright_and_bounded(
    studio_for: StudioFor, tmp_path: Path, png: Callable[[int], bytes]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "sea").mkdir()
    Image.new("RGB", (2000, 1000), "red").save(tmp_path / NAMES[0], "JPEG", exif=exif)
    async with studio_for(root=tmp_path) as client:
        assert size_of((await client.get(f"/studio/photos/{A}/thumbnail")).content) == (160, 320)
        large = (await client.get(f"/studio/photos/{A}/image")).content
        assert size_of(large) == (640, 1280)
        assert b"Exif" not in large


@pytest.mark.parametrize("photo", ["%2e%2e%2fetc%2fpasswd", NAMES[0].replace("/", "%2f"), "0" * 16, "x" * 3000, "%00"])
async def test_what_is_not_an_id_of_a_photo_leads_nowhere(studio: httpx.AsyncClient, photo: str) -> None:
    for what in ("", "/thumbnail", "/image"):
        assert (await studio.get(f"/studio/photos/{photo}{what}")).status_code == 404


async def test_a_photo_that_is_gone_or_a_link_out_of_the_folder_is_said_to_be_gone(
    studio_for: StudioFor, tmp_path: Path, png: Callable[[int], bytes]
) -> None:
    secret, root = tmp_path / "secret.png", tmp_path / "photos"
    secret.write_bytes(png(1))
    (root / "sea").mkdir(parents=True)
    (root / NAMES[0]).symlink_to(secret)
    (root / NAMES[3]).write_text("no photo")
    async with studio_for(root=root) as client:
        for name, status in ((NAMES[0], 404), (NAMES[1], 404), (NAMES[3], 415)):
            answer = await client.get(f"/studio/photos/{id_of(name)}/thumbnail")
            assert answer.status_code == status
            assert str(tmp_path) not in answer.text


async def test_the_example_of_the_page_can_be_searched(studio: httpx.AsyncClient) -> None:
    example = (await studio.get("/studio")).json()["folder"]["example"]
    answer = await studio.get("/studio/search", params={"expression": example})
    assert (answer.status_code, example.split(" + ")[0]) == (200, min(NAMES))


async def test_a_dropped_photo_keeps_its_name(studio: httpx.AsyncClient, png: Callable[[int], bytes]) -> None:
    headers = {**MEANT, "content-type": "image/png"}
    sent = await studio.post("/studio/uploads", params={"name": "our boat (2).png"}, content=png(7), headers=headers)
    photo = sent.json()["photo"]
    assert sent.json()["name"] == "our boat (2).png"
    assert re.fullmatch("drop-our-boat-2-.png-[0-9a-f]{16}", photo)
    assert (await studio.get("/studio/search", params={"expression": photo})).json()["hits"][0]["name"] == NAMES[7]


async def test_an_upload_is_asked_with_and_kept_in_memory(
    studio: httpx.AsyncClient, png: Callable[[int], bytes], vectors: Vectors
) -> None:
    sent = await studio.post("/studio/uploads", content=png(7), headers={**MEANT, "content-type": "image/png"})
    photo = sent.json()["photo"]
    assert sent.json()["bars"][0]["value"] == pytest.approx(vectors[7].max(), abs=1e-4)
    hits = (await studio.get("/studio/search", params={"expression": photo})).json()["hits"]
    assert (hits[0]["name"], hits[0]["score"]) == (NAMES[7], pytest.approx(1, abs=1e-4))
    assert size_of((await studio.get(f"/studio/photos/{photo}/thumbnail")).content) == (40, 30)


@pytest.mark.parametrize("body", [b"", b"no image", b'{"images": []}'])
async def test_what_is_not_a_photo_is_refused(studio: httpx.AsyncClient, body: bytes) -> None:
    sent = await studio.post("/studio/uploads", content=body, headers={**MEANT, "content-type": "image/png"})
    assert sent.status_code in (415, 422)


async def test_a_link_that_cannot_be_fetched_is_refused_as_an_upload(studio: httpx.AsyncClient) -> None:
    sent = await studio.post("/studio/uploads", json={"images": ["https://photos.example/a.png"]}, headers=MEANT)
    assert (sent.status_code, sent.json()["error"]["field"]) == (422, "images[0]")


async def test_an_upload_needs_the_header_that_forms_cannot_send(
    studio: httpx.AsyncClient, png: Callable[[int], bytes]
) -> None:
    sent = await studio.post("/studio/uploads", files={"images": png(1)})
    assert (sent.status_code, sent.json()["error"]["field"]) == (403, "x-nonneg-studio")


async def test_two_photos_side_by_side_sum_to_their_cosine(studio: httpx.AsyncClient, vectors: Vectors) -> None:
    asked = {"a": A, "b": id_of(NAMES[9]), "limit": 5}
    body = (await studio.get("/studio/pair", params=asked)).json()
    assert body["cosine"] == pytest.approx(vectors[0] @ vectors[9], abs=1e-5)
    assert sum(bar["value"] for bar in body["shared"]) + body["rest"] == pytest.approx(body["cosine"])
    for side, one, other in (("only_a", 0, 9), ("only_b", 9, 0)):
        for bar in body[side]:
            assert vectors[one, bar["dimension"]] > 0 == vectors[other, bar["dimension"]]


async def test_a_dimension_tells_of_its_photos_here(
    studio: httpx.AsyncClient, vectors: Vectors, bundle: Bundle
) -> None:
    body = (await studio.get("/studio/dimensions/0")).json()
    assert (body["name"], body["term"]) == ("red things", 'dim:"red things"')
    here = body["here"]
    assert here["count"] == (vectors[:, 0] >= chance_of(bundle, 48).lines[0]).sum(), "photos above chance"
    assert here["photos"][0]["name"] == NAMES[int(vectors[:, 0].argmax())]
    columns = vectors / (vectors**2).sum(axis=0).clip(1e-12) ** 0.5
    together = columns.T @ columns[:, 0]
    for other in here["company"]:
        assert other["cosine"] == pytest.approx(together[other["dimension"]], abs=1e-4)
    assert (await studio.get("/studio/dimensions/48")).status_code == 404
    assert (await studio.get("/studio/dimensions/-1")).status_code == 404


async def test_without_a_folder_photos_can_be_dropped_and_compared(
    studio_for: StudioFor, png: Callable[[int], bytes]
) -> None:
    async with studio_for(indexed=False) as client:
        assert (await client.get("/studio")).json()["folder"] is None
        sent = {**MEANT, "content-type": "image/png"}
        a, b = [(await client.post("/studio/uploads", content=png(i), headers=sent)).json() for i in (1, 2)]
        body = (await client.get("/studio/pair", params={"a": a["photo"], "b": b["photo"]})).json()
        assert 0 < body["cosine"] < 1
        assert (await client.get("/studio/dimensions/3")).json()["here"] is None
        for path in ("/studio/photos", "/studio/search?expression=dim:3", "/studio/groups", "/studio/groups/progress"):
            answer = await client.get(path)
            assert (answer.status_code, "nonneg studio" in answer.json()["error"]["fix"]) == (404, True)


async def test_a_model_that_cannot_say_where_says_so(studio: httpx.AsyncClient, png: Callable[[int], bytes]) -> None:
    assert (await studio.get("/studio")).json()["where"] is False
    answer = await studio.get(f"/studio/photos/{A}/where?dimension=3")
    explained = await studio.post("/explain?where=1", files=[("images", png(1)), ("images", png(2))])
    for refused in (answer, explained):
        assert (refused.status_code, refused.json()["error"]["field"]) == (422, "where")
