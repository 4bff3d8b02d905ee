"""The OpenSearch engine where it differs from the others: rounding, limits, refusals. The rest is in test_engines."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from nonneg_client import Embeddings
from nonneg_client.search import Index
from nonneg_client.search.connectors.opensearch import OpenSearchEngine
from nonneg_core.errors import ConnectionFailed, DataInvalid, StorageFailed
from nonneg_vectors.search.index import describe


@pytest.fixture
def http(opensearch):
    with httpx.Client(base_url=opensearch) as http:
        yield http


def made(http, name, embeddings):
    index = Index(OpenSearchEngine(http, name, describe(embeddings)))
    index.add(embeddings)
    return index


def test_scores_that_differ_by_less_than_the_engine_keeps_are_ranked_exactly(http):
    """A thousand vectors whose rounded scores are nearly all the same: only the documents tell them apart."""
    rng = np.random.default_rng(0)
    angles = 0.8 + 0.004 * rng.random(1000)
    z = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vectors = Embeddings.from_dense(z, fingerprint="f", ids=tuple(map(str, range(1000)))).shorten()
    index = made(http, "rounded", vectors)
    for query in ([1.0, 0.0], [0.3, 1.0]):
        indices, values = np.arange(2, dtype=np.int32), np.array(query, np.float32)
        hits = index.by_weights((indices, values), 10, reasons=False)
        scores = vectors.numpy() @ values
        assert [hit.id for hit in hits] == [str(i) for i in np.argsort(-scores, kind="stable")[:10]]
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores)[::-1][:10], rtol=1e-6)


def test_queries_of_more_clauses_than_the_engine_takes_are_still_exact(http):
    rng = np.random.default_rng(1)
    z = rng.random((60, 1500)) ** 8
    vectors = Embeddings.from_dense(z, fingerprint="f", ids=tuple(map(str, range(60)))).shorten()
    index = made(http, "wide", vectors)
    assert vectors.nnz.max() > 1024
    hits = index.search(vectors[7], 5, reasons=False)
    scores = vectors.numpy() @ vectors.numpy()[7]
    assert [hit.id for hit in hits] == [str(i) for i in np.argsort(-scores)[:5]]


def test_numbers_and_names_of_every_kind_survive(http, random_embeddings):
    vectors = random_embeddings(3, 64).named(["猫.jpg", "a" * 600, 'quote".jpg'])
    index = Index(OpenSearchEngine(http, "kinds", describe(vectors)))
    payloads = [{"n": 1, "x": 0.25}, {"n": 2.5, "tags": ["a", "b"]}, {"good": False}]
    index.add(vectors, payloads)
    assert index.engine.payloads() == dict(zip(vectors.ids, payloads, strict=True))
    assert [hit.id for hit in index.search(vectors[1], where={"n": {"gt": 2}})] == ["a" * 600]
    np.testing.assert_array_equal(index.engine.get(["猫.jpg"]).numpy(), vectors[:1].numpy())


def test_what_the_server_refuses_is_told(http, random_embeddings):
    vectors = random_embeddings(2, 64)
    index = Index(OpenSearchEngine(http, "refused", describe(vectors)))
    index.add(vectors[:1], [{"year": 2001}])
    with pytest.raises(StorageFailed, match=r"refused 1 of 1 changes .*year"):
        index.add(vectors[1:], [{"year": "in spring"}])
    with pytest.raises(StorageFailed, match="answered 400"):
        OpenSearchEngine(http, "UPPER", describe(vectors))


def test_an_index_of_another_program_is_left_alone(http):
    empty = {"mappings": {"dynamic_templates": [], "properties": {}}}
    assert http.put("/theirs", json=empty).status_code == 200
    with pytest.raises(DataInvalid, match="belongs to another program"):
        OpenSearchEngine(http, "theirs")


def test_a_server_that_is_not_there_is_named():
    with httpx.Client(base_url="http://127.0.0.1:9") as http, pytest.raises(ConnectionFailed, match="does not answer"):
        OpenSearchEngine(http, "photos")
