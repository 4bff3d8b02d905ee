"""GET /models/{model}/dimensions: names, evidence and frequencies, filtered, sorted and in pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from nonneg_core.errors import BundleInvalid, ConfigInvalid
from nonneg_runtime.bundle.atlas_file import AtlasDimension, ExampleRecord, Image, write_atlas
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.startup.app import create_app
from nonneg_server.startup.serve_command import repository_of
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.anyio
PATH = "/models/tiny/dimensions"


async def found(client: httpx.AsyncClient, query: str = "") -> dict[str, Any]:
    answer = await client.get(f"{PATH}?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def places(answer: dict[str, Any]) -> list[int]:
    return [item["dimension"] for item in answer["dimensions"]]


async def test_pages_together_hold_every_dimension_once(client: httpx.AsyncClient, bundle: Bundle) -> None:
    pages = [await found(client, f"limit=20&offset={offset}") for offset in (0, 20, 40, 60)]
    assert [len(page["dimensions"]) for page in pages] == [20, 20, 8, 0]
    assert [place for page in pages for place in places(page)] == list(range(48))
    assert {(page["total"], page["named"]) for page in pages} == {(48, 4)}
    listed = pages[0]["dimensions"][3]
    assert listed["frequency"] == bundle.manifest.columns.frequency[3]
    assert (listed["name"], listed["common"], listed["evidence"]) == (None, None, None)
    details = (await client.get(listed["details"])).json()
    assert details["dimension"] == 3
    assert pages[0]["unnamed"] == details["unnamed"] == "too few photos"
    assert (await client.get(f"{PATH}/5")).json()["unnamed"] is None


async def test_names_are_told_with_their_evidence(client: httpx.AsyncClient) -> None:
    named = (await found(client, "named=true"))["dimensions"]
    assert [item["name"] for item in named] == ["red things", "tabby", "ox", "cab"]
    assert [item["common"] for item in named] == [None, "cat", None, None]
    assert [item["evidence"]["source"] for item in named] == ["atlas", "direction", "direction", "captions"]
    assert [item["evidence"]["says"] for item in named] == [
        "50% of its examples in the atlas have this label",
        "9 of its 10 strongest photos show it, 20 in all",
        "the one photo of it, held out, comes 3rd among those of all classes",
        "no photos to check it on",
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("named=true&sort=name", [9, 7, 0, 5]),
        ("named=true&sort=evidence", [5, 0, 7, 9]),
        ("named=true&sort=frequency", [0, 5, 7, 9]),
        ("contains=CAT", [5]),
        ("contains=ab", [5, 9]),
        ("evidence=rank", [5, 7]),
        ("evidence=precision", [0, 5]),
        ("contains=nothing+here", []),
    ],
)
async def test_they_are_sorted_and_filtered(client: httpx.AsyncClient, query: str, expected: list[int]) -> None:
    answer = await found(client, query)
    assert places(answer) == expected
    assert answer["total"] == len(expected)


async def test_without_names_come_after_those_with_one(client: httpx.AsyncClient) -> None:
    assert places(await found(client, "sort=name&limit=6")) == [9, 7, 0, 5, 1, 2]
    assert places(await found(client, "sort=evidence&limit=6")) == [5, 0, 7, 9, 1, 2]


@pytest.mark.parametrize(
    ("query", "field"),
    [("sort=size", "sort"), ("limit=0", "limit"), ("limit=1001", "limit"), ("offset=-1", "offset"), ("top=3", "top"),
     ("named=yes", "named"), (f"contains={101 * 'x'}", "contains"), ("sort=name&sort=name", "sort")],
)  # fmt: skip
async def test_what_it_does_not_know_is_refused(client: httpx.AsyncClient, query: str, field: str) -> None:
    answer = await client.get(f"{PATH}?{query}")
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


async def test_a_model_that_is_not_served_has_no_list(client: httpx.AsyncClient) -> None:
    assert (await client.get("/models/other/dimensions")).status_code == 404


async def test_an_atlas_beside_a_model_shows_its_examples_and_that_of_another_is_refused(
    tmp_path: Path, make_bundle: Callable[..., Bundle], png: Callable[[int], bytes]
) -> None:
    bundle, atlas = make_bundle(tmp_path, name="a", seed=1), tmp_path / "mine.atlas"
    picture = Image("cat.jpg", "", b"\xff\xd8 a picture")
    named = [AtlasDimension(j, "stripes" if j == 11 else "", 1.0) for j in range(48)]
    write_atlas(atlas, [picture], named, [ExampleRecord(11, 0, 0, 0.9)], fingerprint=bundle.manifest.fingerprint)
    repository = repository_of(Settings(model=(str(bundle.path),), atlas=(str(atlas),), threads=1))
    repository.load_all()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(create_app(repository.registry, Settings())), base_url="http://localhost"
    ) as client:
        found = (await client.get("/models/a/dimensions/11")).json()
        assert (found["name"], found["evidence"]["source"]) == ("stripes", "atlas")
        assert (await client.get(found["examples"][0]["image"])).content == picture.jpeg
    repository.registry.close()
    other = make_bundle(tmp_path, name="b", seed=2)
    with pytest.raises(ConfigInvalid, match="is another one"):
        repository_of(Settings(model=(str(other.path),), atlas=(str(atlas),), threads=1))
    with pytest.raises(BundleInvalid, match="is not there"):
        repository_of(Settings(model=(str(other.path),), atlas=(str(tmp_path / "none"),), threads=1))
