"""POST /search against a real server process over a real index: hits, conditions, reasons, and every refusal."""

from __future__ import annotations

import base64
import json

import httpx
import numpy as np
import pytest

from nonneg_client.client import Client
from nonneg_core.errors import NotFound
from nonneg_vectors.search.index import Index

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def pictures(png):
    return {f"{'ab'[i % 2]}/{i}.png": png(i) for i in range(12)}


@pytest.fixture(scope="module")
def vectors(served, pictures):
    with Client(served) as client:
        return client.embed(list(pictures.values())).named(list(pictures))


@pytest.fixture(scope="module")
def server(bundle, vectors, start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "photos.index"
    with Index.open(folder, like=vectors) as index:
        index.add(vectors, [{"folder": name[0], "price": 5 + i} for i, name in enumerate(vectors.ids)])
    with start("--drain", "0", "--model", str(bundle.path), "--index", str(folder)) as (address, _):
        yield address


def ask(server, **body):
    return httpx.post(f"{server}/search", json=body, timeout=60)


def brute(vectors, z, k):
    scores = vectors.numpy() @ (z / np.linalg.norm(z))
    return [(vectors.ids[i], float(scores[i])) for i in np.argsort(-scores, kind="stable")[:k] if scores[i] > 0]


def same(hits, expected):
    assert [hit["id"] for hit in hits] == [name for name, _ in expected]
    np.testing.assert_allclose([hit["score"] for hit in hits], [score for _, score in expected], rtol=2e-3)


def test_a_photo_finds_the_nearest_with_payload_and_reasons(server, vectors, pictures):
    name = vectors.ids[3]
    answer = httpx.post(f"{server}/search?k=4", content=pictures[name], headers={"content-type": "image/png"})
    assert answer.status_code == 200
    written = answer.json()
    same(written["hits"], brute(vectors, vectors.numpy()[3], 4))
    first = written["hits"][0]
    assert (first["id"], first["payload"]) == (name, {"folder": "b", "price": 8})
    assert written["exact"] is True
    assert written["fingerprint"] == answer.headers["x-fingerprint"] == vectors.fingerprint
    parts = vectors.numpy()[3] ** 2
    assert [reason["dimension"] for reason in first["reasons"]] == list(np.argsort(-parts, kind="stable")[:5])
    assert sum(reason["part"] for reason in first["reasons"]) <= first["score"] + 1e-6
    assert "x-inference-time" in answer.headers


def test_conditions_and_what_is_left_out_hold(server, pictures):
    picture = base64.b64encode(pictures["a/0.png"]).decode()
    body = {"images": [picture], "where": {"folder": "a", "price": {"lt": 10}}, "exclude": ["a/0.png"]}
    hits = ask(server, **body, reasons=False).json()["hits"]
    assert {hit["id"] for hit in hits} == {"a/2.png", "a/4.png"}
    assert all(hit["reasons"] == [] for hit in hits)


def test_an_expression_of_photos_and_dimensions_is_searched(server, vectors, pictures):
    picture = base64.b64encode(pictures["a/2.png"]).decode()
    written = ask(server, expression="a.png + 2*dim:7 !dim:9", images={"a.png": picture}, k=3, exact=True).json()
    z = vectors.numpy()
    query = z[2] + 2 * np.eye(z.shape[1], dtype=np.float32)[7]
    allowed = vectors[np.flatnonzero(z[:, 9] == 0)]
    same(written["hits"], brute(allowed, query, 3))
    named = ask(server, expression="dim:tabby", k=2).json()["hits"]
    assert all([(reason["dimension"], reason["name"]) for reason in hit["reasons"]] == [(5, "tabby")] for hit in named)


def test_every_hit_says_whether_a_random_photo_may_score_as_much(server, pictures):
    content = pictures["a/0.png"]
    hits = httpx.post(f"{server}/search", content=content).json()["hits"]
    assert {hit["match"] for hit in hits} <= {True, False}
    only = httpx.post(f"{server}/search?matches_only=true", content=content).json()["hits"]
    assert only == [hit for hit in hits if hit["match"]]


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        ({"images": []}, "parameter_invalid", "images"),
        ({"expression": "dim:1", "k": 0}, "parameter_invalid", "k"),
        ({"expression": "dim:1", "k": 5000}, "parameter_invalid", "k"),
        ({"expression": "dim:1", "where": {"x": None}}, "parameter_invalid", "x"),
        ({"expression": "dim:1", "without": [4000]}, "parameter_invalid", None),
        ({"expression": "dim:1 +"}, "expression_invalid", "expression[7]"),
        ({"expression": "dim:1", "dimensions": 8}, "parameter_invalid", "dimensions"),
        ({"expression": "a.jpg", "images": {"a.jpg": "AAAA"}}, "image_unsupported", "images['a.jpg']"),
        ({}, "parameter_invalid", "images"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(server, body, kind, field):
    answer = ask(server, **body)
    assert 400 <= answer.status_code < 500
    error = answer.json()["error"]
    assert (error["type"], error["field"]) == (kind, field)
    assert error["fix"]


def test_two_photos_are_not_one_query(server, pictures):
    picture = base64.b64encode(pictures["a/0.png"]).decode()
    answer = ask(server, images=[picture, picture])
    assert (answer.status_code, answer.json()["error"]["value"]) == (422, 2)


def test_the_client_searches_as_the_index_itself_does(server, vectors, pictures, tmp_path):
    (tmp_path / "query.png").write_bytes(pictures["b/5.png"])
    with Client(server) as client:
        hits = client.search(tmp_path / "query.png", k=3)
        assert (hits[0].id, hits.exact) == ("b/5.png", True)
        same([{"id": hit.id, "score": hit.score} for hit in hits], brute(vectors, vectors.numpy()[5], 3))
        assert hits[0].reasons[0][0] == int(np.argmax(vectors.numpy()[5]))
        cheap = client.search(f"{tmp_path}/query.png + dim:7", k=9, where={"price": {"lt": 8}})
        assert {hit.id for hit in cheap} <= {"a/0.png", "b/1.png", "a/2.png"}
        assert client.search(pictures["b/5.png"], k=1)[0].id == "b/5.png"


def test_a_server_without_an_index_says_so(served, pictures):
    with Client(served) as client, pytest.raises(NotFound, match="no index to search"):
        client.search(pictures["a/0.png"])


def test_a_key_is_asked_and_metrics_count(bundle, vectors, start, tmp_path, pictures):
    with Index.open(tmp_path / "x", like=vectors) as index:
        index.add(vectors)
    flags = (
        "--drain",
        "0",
        "--model",
        str(bundle.path),
        "--index",
        str(tmp_path / "x"),
        "--api-key",
        "a-secret-of-a-test",
    )
    with start(*flags) as (address, _):
        assert httpx.post(f"{address}/search", content=pictures["a/0.png"]).status_code == 401
        headers = {"authorization": "Bearer a-secret-of-a-test"}
        assert httpx.post(f"{address}/search", content=pictures["a/0.png"], headers=headers).status_code == 200
        metrics = httpx.get(f"{address}/metrics", headers=headers).text
        assert any('"/search"' in line and 'status="200"' in line for line in metrics.splitlines())


def test_an_index_of_a_model_that_is_not_served_is_named(bundle, vectors, start, tmp_path):
    from dataclasses import replace

    with Index.open(tmp_path / "x", like=replace(vectors, fingerprint="f" * 32, model="other")):
        pass
    with start("--drain", "0", "--model", str(bundle.path), "--index", str(tmp_path / "x")) as (address, _):
        error = ask(address, expression="dim:1").json()["error"]
    assert "other (ffffffff), which is not served here" in error["message"]
    assert json.dumps(error["fix"])
