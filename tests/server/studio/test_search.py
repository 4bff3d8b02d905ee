"""A search of an indexed folder, against a slow, obvious second version."""

from __future__ import annotations

from itertools import product
from typing import Any

import httpx
import numpy as np
import pytest

from nonneg_core.shortening import Vectors, shorten
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.words.column_facts import chance_of
from nonneg_server.studio.folder import id_of

from .conftest import NAMES

pytestmark = pytest.mark.anyio
WIDTH = 48


async def found(studio: httpx.AsyncClient, **asked: Any) -> dict[str, Any]:
    answer = await studio.get("/studio/search", params=asked)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


@pytest.mark.parametrize(("dimensions", "top_k"), [(None, None), (20, None), (None, 3), (20, 3), (1, 1)])
async def test_hits_are_the_cosines_of_the_shortened_vectors(
    studio: httpx.AsyncClient, vectors: Vectors, dimensions: int | None, top_k: int | None
) -> None:
    size = {name: value for name, value in (("dimensions", dimensions), ("top_k", top_k)) if value}
    body = await found(studio, expression=NAMES[5], limit=100, **size)
    z = shorten(vectors, dimensions, top_k)
    cosines = z @ z[5]
    cosines[5] = 0
    assert body["total"] == (cosines > 0).sum()
    assert [hit["score"] for hit in body["hits"]] == pytest.approx(sorted(cosines[cosines > 0], reverse=True), abs=1e-5)
    for hit in body["hits"]:
        assert hit["score"] == pytest.approx(cosines[NAMES.index(hit["name"])], abs=1e-5)


async def test_a_tenth_of_each_stored_vector_is_asked_with_the_whole_query(
    studio: httpx.AsyncClient, vectors: Vectors
) -> None:
    body = await found(studio, expression=NAMES[0], tenth=True, limit=100)
    cosines = shorten(vectors, None, round(WIDTH / 10)) @ vectors[0]
    assert body["hits"]
    for hit in body["hits"]:
        assert hit["score"] == pytest.approx(cosines[NAMES.index(hit["name"])], abs=1e-5)
    assert body["bytes"] < body["whole_bytes"]


async def test_the_parts_of_a_hit_sum_to_its_score_where_all_are_listed(
    studio: httpx.AsyncClient, vectors: Vectors
) -> None:
    body = await found(studio, expression=NAMES[3], top_k=4, limit=3)
    ids = {reason["dimension"]: reason["exemplar"] for hit in body["hits"] for reason in hit["reasons"]}
    assert ids == {j: id_of(NAMES[int(vectors[:, j].argmax())]) for j in ids}
    for hit in body["hits"]:
        assert sum(reason["part"] for reason in hit["reasons"]) == pytest.approx(hit["score"], abs=1e-5)
        assert sum(reason["share"] for reason in hit["reasons"]) == pytest.approx(1, abs=1e-5)


async def test_what_is_unwanted_is_active_in_no_hit_and_what_is_required_shows_in_each(
    studio: httpx.AsyncClient, vectors: Vectors, bundle: Bundle
) -> None:
    common = int(np.argmin(np.abs((vectors > 0).sum(axis=0) - len(NAMES) / 2)))
    shows = (vectors > 0) & (vectors >= chance_of(bundle, WIDTH).lines)
    other = int(np.argmax(((vectors[:, [common]] == 0) & shows)[2:].sum(axis=0)))
    body = await found(studio, expression=f"{NAMES[1]} !dim:{common}", only=other, limit=100, dimensions=max(common, 2))
    names = {hit["name"] for hit in body["hits"]}
    allowed = {n for i, n in enumerate(NAMES) if vectors[i, common] == 0 and shows[i, other]}
    assert names <= allowed
    assert 0 < len(names) == body["total"]


async def test_both_counts_the_smaller_of_two_cosines(studio: httpx.AsyncClient, vectors: Vectors) -> None:
    body = await found(studio, expression=f"{NAMES[0]} & {NAMES[4]}", limit=100)
    smaller = np.minimum(vectors @ vectors[0], vectors @ vectors[4])
    assert {NAMES[0], NAMES[4]}.isdisjoint(hit["name"] for hit in body["hits"])
    for hit in body["hits"]:
        assert hit["score"] == pytest.approx(smaller[NAMES.index(hit["name"])], abs=1e-5)


async def test_pages_follow_each_other(studio: httpx.AsyncClient) -> None:
    whole = (await found(studio, expression=NAMES[2], limit=20))["hits"]
    parts = [(await found(studio, expression=NAMES[2], limit=7, offset=o))["hits"] for o in (0, 7, 14)]
    assert [hit["photo"] for part in parts for hit in part][:20] == [hit["photo"] for hit in whole]


async def test_the_expression_comes_back_in_its_parts(studio: httpx.AsyncClient) -> None:
    read = (await found(studio, expression=f'{NAMES[0]} + 2*dim:"red things" !dim:3'))["expression"]
    ((photo, dimension),) = read["parts"]
    assert (photo["kind"], photo["name"]) == ("photo", NAMES[0])
    assert (dimension["weight"], dimension["dimension"], dimension["text"]) == (2, 0, 'dim:"red things"')
    assert [leaf["dimension"] for leaf in read["without"]] == [3]


async def test_the_whole_length_agrees_with_itself_and_counts_facets_over_all_photos(
    studio: httpx.AsyncClient, vectors: Vectors, bundle: Bundle
) -> None:
    body = await found(studio, expression=NAMES[0])
    assert body["agreement"] == 1
    counts = ((vectors > 0) & (vectors >= chance_of(bundle, WIDTH).lines)).sum(axis=0)
    assert {facet["dimension"]: facet["count"] for facet in body["facets"]} == {
        facet["dimension"]: counts[facet["dimension"]] for facet in body["facets"]
    }
    assert min(facet["in_result"] for facet in body["facets"]) > 0
    assert (await found(studio, expression=NAMES[0], dimensions=2, top_k=1))["agreement"] < 1


async def test_a_photo_of_which_nothing_is_left_is_near_to_nothing(studio: httpx.AsyncClient, vectors: Vectors) -> None:
    (zero,) = np.flatnonzero((vectors[:, :1] == 0).all(axis=1))[:1]
    body = await found(studio, expression=NAMES[zero], dimensions=1)
    assert (body["hits"], body["total"], body["agreement"]) == ([], 0, 0)


@pytest.mark.parametrize(("dimensions", "top_k"), [(None, None), (20, None), (None, 5), (20, 5)])
async def test_the_line_is_that_of_the_manifests_statistics_at_every_length(
    studio: httpx.AsyncClient, vectors: Vectors, bundle: Bundle, dimensions: int | None, top_k: int | None
) -> None:
    size = {name: value for name, value in (("dimensions", dimensions), ("top_k", top_k)) if value}
    body = await found(studio, expression=NAMES[0], limit=100, **size)
    asked = shorten(vectors[0], dimensions, top_k)
    chance = chance_of(bundle, dimensions or WIDTH, top_k)
    assert body["chance"] == pytest.approx(chance.line([(np.flatnonzero(asked), asked[asked > 0])]), abs=1e-5)
    assert body["above"] == sum(hit["score"] >= body["chance"] for hit in body["hits"])


async def test_what_is_asked_for_is_told_as_dimensions_with_photos_that_show_them(
    studio: httpx.AsyncClient, vectors: Vectors
) -> None:
    common = 1 + int((vectors[:, 1:] > 0).sum(axis=0).argmax())
    asked = (await found(studio, expression=f'dim:{common} + 2*dim:"red things" - dim:{WIDTH - 1}'))["asked"]
    assert [bar["dimension"] for bar in asked] == [0, common]
    assert asked[0]["name"] == "red things"
    assert asked[0]["value"] == pytest.approx(2 * asked[1]["value"])
    best = NAMES[int(vectors[:, common].argmax())]
    assert (
        asked[1]["exemplars"][0]
        == (await studio.get("/studio/photos", params={"name": best})).json()["photos"][0]["photo"]
    )


async def test_words_and_dimensions_have_a_line_too(studio: httpx.AsyncClient) -> None:
    body = await found(studio, expression=f"{NAMES[0]} - 0.5*dim:3 & dim:2")
    assert 0 < body["chance"] < 1
    assert body["above"] <= body["total"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "nothing is searched for"),
        ({"expression": "  "}, "nothing is searched for"),
        ({"expression": "nowhere.jpg"}, "character 1 of the expression: no photo called 'nowhere.jpg' is indexed here"),
        ({"expression": "../../etc/passwd"}, "no photo called"),
        ({"expression": "dim:48"}, "dimension 48"),
        ({"expression": "dim:3 +"}, "should stand here"),
        ({"expression": "drop-00"}, "no longer holds this photo"),
        ({"only": 48}, "dimension 48 is not one of the 48 that are searched"),
        ({"expression": NAMES[0], "dimensions": 49}, "exceeds this model's 48"),
        ({"expression": NAMES[0], "top_k": 0}, "top_k"),
        ({"expression": "x" * 5000}, "expression"),
        ({"photo": "x"}, "parameter 'photo' is not known"),
    ],
)
async def test_what_cannot_be_asked_is_said(studio: httpx.AsyncClient, asked: dict[str, Any], said: str) -> None:
    answer = await studio.get("/studio/search", params=asked)
    assert answer.status_code in (404, 422)
    assert said in answer.json()["error"]["message"]


async def test_what_lies_beyond_the_length_is_left_out_and_told_with_the_length_that_it_needs(
    studio: httpx.AsyncClient, vectors: Vectors
) -> None:
    far = 20 + int((vectors[:, 20:] > 0).sum(axis=0).argmin())
    body = await found(studio, expression=f"{NAMES[0]} + dim:{far} & dim:{far} - dim:3 !dim:{far}", dimensions=20)
    assert [(leaf["text"], leaf["needs"]) for leaf in body["left_out"]] == [(f"dim:{far}", far + 1), ("dim:3", far + 1)]
    assert len(body["expression"]["parts"]) == 2  # what was asked is still what is told
    z = shorten(vectors, 20)
    assert body["hits"]
    for hit in body["hits"]:
        i = NAMES.index(hit["name"])
        assert vectors[i, far] == 0
        assert hit["score"] == pytest.approx(z[0] @ z[i], abs=1e-5)
    assert (await found(studio, expression=f"{NAMES[0]} + dim:{far}"))["left_out"] == []


@pytest.mark.parametrize("asked", [{"expression": "dim:40"}, {"only": 40}])
async def test_where_nothing_is_left_within_the_length_there_are_no_hits_and_the_length_is_told(
    studio: httpx.AsyncClient, asked: dict[str, Any]
) -> None:
    body = await found(studio, **asked, dimensions=8)
    assert (body["hits"], body["total"]) == ([], 0)
    assert [(leaf["dimension"], leaf["needs"]) for leaf in body["left_out"]] == [(40, 41)]


async def test_a_difference_of_which_only_a_short_length_leaves_nothing_has_no_hits(
    studio: httpx.AsyncClient, vectors: Vectors
) -> None:
    i, j, k = next(
        (i, j, k)
        for k, i, j in product((1, 2, 3), range(24), range(24))
        if i != j
        and vectors[i, :k].any()
        and vectors[j, :k].any()
        and not (shorten(vectors[i], k) > shorten(vectors[j], k)).any()
    )
    body = await found(studio, expression=f"{NAMES[i]} - {NAMES[j]}", dimensions=k)
    assert (body["total"], [leaf["needs"] for leaf in body["left_out"]]) == (0, [None, None])
    refused = await studio.get("/studio/search", params={"expression": f"{NAMES[i]} - {NAMES[i]}", "dimensions": k})
    assert refused.status_code == 422
