"""What a user says of photos is kept in the data folder, searched for, exported, and there the next day."""

import csv
import io
import sqlite3
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from PIL import Image

from nonneg_core.files.image_files import find_passed_over
from nonneg_core.pixels.exif import camera_facts
from nonneg_server.studio.folder import id_of
from nonneg_vectors.curation.photos import attributes, measure

from .conftest import NAMES, StudioFor

pytestmark = pytest.mark.anyio
MEANT = {"x-nonneg-studio": "1"}
SEA = [name for name in NAMES if name.startswith("sea/")]


async def put(client: httpx.AsyncClient, what: str, **body: Any) -> dict[str, Any]:
    answer = await client.put(f"/studio/{what}", json=body, headers=MEANT)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def names(client: httpx.AsyncClient, where: str) -> list[str]:
    answer = await client.get("/studio/photos", params={"where": where})
    assert answer.status_code == 200, answer.text
    return [photo["name"] for photo in answer.json()["photos"]]


async def test_tags_are_there_the_next_day_searched_for_and_taken_back(studio_for: StudioFor, data_home: Path) -> None:
    async with studio_for() as client:
        photos = [id_of(name) for name in SEA[:3]]
        assert (await put(client, "marks", name="summer", photos=photos))["changed"] == photos
        assert (await put(client, "marks", name="summer", photos=photos[:1]))["changed"] == []
        await put(client, "marks", name="Italy", kind="album", photos=photos[:2])
    assert [path.name for path in data_home.rglob("*") if path.is_file()] == ["studio.sqlite"]
    async with studio_for() as client:
        library = (await client.get("/studio/library")).json()
        assert library["tags"] == [{"name": "summer", "count": 3}]
        assert library["albums"] == [{"name": "Italy", "count": 2}]
        assert await names(client, "tag=summer") == sorted(SEA[:3])
        assert await names(client, "tag=summer; album!=Italy") == [SEA[2]]
        hits = await client.get("/studio/search", params={"expression": "dim:3", "where": "tag=summer", "limit": 50})
        assert {hit["name"] for hit in hits.json()["hits"]} <= set(SEA[:3])
        assert hits.json()["total"] <= 3
        facts = (await client.get(f"/studio/photos/{photos[0]}")).json()["facts"]
        assert (facts["tags"], facts["albums"]) == (["summer"], ["Italy"])
        assert (await put(client, "marks", name="summer", photos=photos, on=False))["changed"] == photos
        assert await names(client, "tag=summer") == []


async def test_a_named_dimension_is_shown_searched_for_and_undone(studio: httpx.AsyncClient) -> None:
    await put(studio, "names", dimension=5, name="flowers")
    assert (await studio.get("/studio/dimensions/5")).json()["name"] == "flowers"
    by_name, by_number = [
        (await studio.get("/studio/search", params={"expression": text})).json()["hits"]
        for text in ("dim:flowers", "dim:5")
    ]
    assert by_name == by_number
    completed = (await studio.get("/studio/completions", params={"text": "flo"})).json()
    assert completed[0] == {"text": "dim:flowers", "kind": "dimension", "label": "flowers", "over": 3}
    assert await put(studio, "names", dimension=5, name=None) == {"before": "flowers"}
    assert (await studio.get("/studio/search", params={"expression": "dim:flowers"})).status_code == 422
    refused = await studio.put("/studio/names", json={"dimension": 48, "name": "x"}, headers=MEANT)
    assert refused.status_code == 404


async def test_a_search_is_saved_and_forgotten(studio: httpx.AsyncClient) -> None:
    saved = await put(studio, "searches", name="red", address="/?q=dim%3A0")
    assert saved["searches"] == [{"name": "red", "address": "/?q=dim%3A0"}]
    assert (await put(studio, "searches", name="red", address=None))["searches"] == []


async def test_a_selection_becomes_a_table_paths_sidecars_and_copies(
    studio: httpx.AsyncClient, folder: Path, tmp_path: Path
) -> None:
    photos = [id_of(name) for name in SEA[:2]]
    await put(studio, "marks", name="rock & roll's", photos=photos)

    async def export(form: str, **more: str) -> httpx.Response:
        return await studio.post("/studio/export", json={"photos": photos, "form": form, **more}, headers=MEANT)

    rows = list(csv.DictReader(io.StringIO((await export("csv")).text)))
    assert [(row["path"], row["tags"]) for row in rows] == [(name, "rock & roll's") for name in SEA[:2]]
    assert (await export("paths")).text.splitlines() == [str(folder / name) for name in SEA[:2]]
    with zipfile.ZipFile(io.BytesIO((await export("xmp")).content)) as archive:
        assert archive.namelist() == [f"{name}.xmp" for name in SEA[:2]]
        tree = ElementTree.fromstring(archive.read(f"{SEA[0]}.xmp"))
    words = tree.iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")
    assert {word.text for word in words} == {"rock & roll's"}
    copied = (await export("copy", to=str(tmp_path / "out"))).json()
    assert (copied["copied"], copied["there_already"]) == (2, 0)
    assert (tmp_path / "out" / SEA[0]).read_bytes() == (folder / SEA[0]).read_bytes()
    assert (await export("copy", to=str(tmp_path / "out"))).json()["there_already"] == 2
    for wrong in (str(folder / "within"), "relative"):
        assert (await export("copy", to=wrong)).status_code == 422


@pytest.mark.parametrize("where", ["tag", "colour=red", "taken>=yesterday"])
async def test_a_condition_that_is_not_understood_is_refused_with_a_fix(studio: httpx.AsyncClient, where: str) -> None:
    refused = await studio.get("/studio/photos", params={"where": where})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "where")
    assert refused.json()["error"]["fix"]


async def test_nothing_is_kept_for_a_form_of_another_site_or_copied_for_another_machine(studio_for: StudioFor) -> None:
    body = {"name": "x", "photos": [id_of(NAMES[0])]}
    async with studio_for(host="0.0.0.0", studio=True) as client:
        assert (await client.put("/studio/marks", json=body)).status_code == 403
        export = {"photos": body["photos"], "form": "copy", "to": "/tmp/x"}
        assert (await client.post("/studio/export", json=export, headers=MEANT)).status_code == 403
        assert (await client.put("/studio/marks", json={**body, "name": "a;b"}, headers=MEANT)).status_code == 422


async def test_a_library_that_cannot_be_read_is_told_with_its_place(studio: httpx.AsyncClient, data_home: Path) -> None:
    (data_home / "nonneg").mkdir(parents=True)
    (data_home / "nonneg" / "studio.sqlite").write_bytes(b"no database, though as long as one" * 100)
    with pytest.raises(sqlite3.Error):
        sqlite3.connect(data_home / "nonneg" / "studio.sqlite").execute("SELECT * FROM marks")
    answer = await studio.get("/studio/library")
    assert (answer.status_code, "studio.sqlite" in answer.text) == (500, True)


async def test_the_atlas_lists_dimensions_whose_strongest_photos_are_most_alike_first(
    studio: httpx.AsyncClient,
) -> None:
    answer = (await studio.get("/studio/atlas", params={"limit": 500})).json()
    alike = [one["alike"] for one in answer["dimensions"]]
    assert len(alike) == answer["total"] > 1
    assert alike == sorted(alike, reverse=True)


def test_an_index_keeps_when_and_with_what_a_photo_was_taken(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "NIKON CORPORATION", "NIKON D90"
    exif.get_ifd(0x8769)[0x9003] = "2024:05:31 18:30:00"
    Image.new("RGB", (40, 60), "red").save(tmp_path / "a.jpg", exif=exif)
    kept = attributes(measure((tmp_path / "a.jpg").read_bytes()))
    assert (kept["taken"], kept["orientation"]) == (1717180200, "tall")
    assert kept["camera"] == "NIKON CORPORATION NIKON D90"
    assert camera_facts(b"\xff\xd8 no photo") == {}


def test_raw_files_and_videos_are_counted_as_passed_over(tmp_path: Path) -> None:
    for name in ("a.CR2", "b.cr2", "c.mp4", "d.jpg", "e.txt"):
        (tmp_path / name).touch()
    assert find_passed_over(tmp_path) == {"cr2": 2, "mp4": 1}
