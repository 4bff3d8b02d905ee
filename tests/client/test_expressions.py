"""Searching with expressions, against brute force; in this process and through a server."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_client.embedder import local
from nonneg_client.search import Index
from nonneg_core.errors import DataInvalid, ExpressionInvalid, FingerprintMismatch
from nonneg_runtime.bundle.bundle_folder import DEFAULT
from nonneg_runtime.words.names import read_names

N, D = 600, 64


@pytest.fixture(scope="module")
def vectors(random_embeddings):
    return random_embeddings(N, D)


@pytest.fixture(scope="module")
def index(vectors, tmp_path_factory):
    with Index.open(tmp_path_factory.mktemp("expressions") / "index", like=vectors) as index:
        index.add(vectors, [{"odd": bool(i % 2)} for i in range(N)])
        yield index


def brute(vectors, parts, k, *, without=(), keep=lambda i: True):
    z = vectors.numpy()
    scores = np.min([z @ (part / np.linalg.norm(part)) for part in parts], axis=0)
    allowed = [i for i in range(N) if scores[i] > 1e-7 and not z[i, list(without)].any() and keep(i)]
    return sorted(((float(scores[i]), vectors.ids[i]) for i in allowed), key=lambda found: (-found[0], found[1]))[:k]


E = np.eye(D)


STORED = 3e-4  # what twelve bits a value change a score by, at most


@pytest.mark.parametrize(
    ("text", "parts", "without"),
    [
        ("dim:1 + 2*dim:3", [E[1] + 2 * E[3]], ()),
        ("dim:1 - dim:3", [E[1] - E[3]], ()),
        ("dim:1 - 0.2*dim:3 !dim:2", [E[1] - 0.2 * E[3]], (2,)),
        ("dim:1 & dim:3", [E[1], E[3]], ()),
        ("dim:1 & dim:20 & dim:5 - dim:0", [E[1], E[20], E[5] - E[0]], ()),
        ("dim:1 & dim:3 !dim:0 !dim:2", [E[1], E[3]], (0, 2)),
        ("dim:1 !dim:0", [E[1]], (0,)),
    ],
)
@pytest.mark.parametrize("k", [1, 10, 50])
def test_the_hits_are_those_that_brute_force_finds(index, vectors, text, parts, without, k):
    hits = index.search(text, k)
    expected = brute(vectors, parts, k, without=without)
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, _ in expected], atol=STORED)
    apart = min(np.diff([-score for score, _ in expected]), default=1) > 2 * STORED
    assert not apart or [hit.id for hit in hits] == [name for _, name in expected]
    assert all(hit.reasons for hit in hits)


def test_conditions_and_exclusions_hold_for_several_parts(index, vectors):
    first = index.search("dim:1 & dim:3", 1)[0].id
    hits = index.search("dim:1 & dim:3", 20, where={"odd": True}, without=[4], exclude=[first])
    expected = brute(vectors, [E[1], E[3]], 20, without=(4,), keep=lambda i: i % 2 and vectors.ids[i] != first)
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, _ in expected], atol=STORED)


def test_parts_that_no_vector_has_together_find_nothing(index, vectors):
    together = (vectors.numpy() > 0).T.astype(int) @ (vectors.numpy() > 0)
    a, b = np.argwhere(together == 0)[0]
    assert index.search(f"dim:{a} & dim:{b}") == []


def test_what_needs_a_model_says_so_without_one(index):
    with pytest.raises(ExpressionInvalid, match="needs a model") as refused:
        index.search('dim:1 + "dog"')
    assert refused.value.field == "expression[8]"
    with pytest.raises(ExpressionInvalid, match="there are 64"):
        index.search("dim:64")


@pytest.fixture(scope="module")
def embedders(client):
    with local() as encoder:
        yield {"server": client, "local": encoder}


@pytest.mark.parametrize("where", ["server", "local"])
def test_photos_and_named_dimensions_are_resolved_alike(embedders, photos, where):
    embedder, photo = embedders[where], photos / "cat" / "cat-0.jpg"
    query = embedder.query(f"{photo} + 2*dim:tench !dim:goldfish", 2048)
    place = {name.name: name.dimension for name in read_names(DEFAULT / "names.json", 2048).names}
    own = embedder.embed(photo, 2048).numpy()[0]
    tench = query.expression.parts[0][1].leaf
    assert tench.name == "tench"
    expected = own + 2 * np.eye(2048)[place["tench"]]
    found = np.zeros(2048)
    found[query.parts[0][0]] = query.parts[0][1]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)
    assert query.without == (place["goldfish"],)
    assert query.fingerprint == embedder.model().fingerprint


@pytest.mark.parametrize("where", ["server", "local"])
def test_a_mistake_has_its_place_and_a_folder_is_not_a_photo(embedders, photos, where):
    with pytest.raises(ExpressionInvalid) as refused:
        embedders[where].query("dim:1 + dim:tenchh")
    assert refused.value.field == "expression[8]"
    assert "tench" in str(refused.value.fix)
    with pytest.raises(DataInvalid, match="not a folder"):
        embedders[where].query(f"{photos / 'cat'} + dim:1")


@pytest.mark.parametrize("where", ["server", "local"])
def test_words_that_must_not_be_there_are_left_out_above_the_line_of_chance(embedders, where, photos, tmp_path):
    embedder = embedders[where]
    stored = embedder.embed(photos)
    with Index.open(tmp_path / "photos.index", like=stored) as index:
        index.add(stored)
        for text in ('"cat"', '!"cat"', '"a thing" !"cat"'):
            query = embedder.query(text)
            hits = index.search(query, len(stored))
            scores = {hit.id: hit.score for hit in hits}
            unlike = [stored.numpy() @ dense(one.row) >= one.line for one in query.unlike]
            gone = {
                name for name, out in zip(stored.ids, np.any(unlike, axis=0) if unlike else [], strict=False) if out
            }
            assert not gone & set(scores)
            assert len(scores) == len(stored) - len(gone)
            assert bool(unlike) == ("!" in text)
    short = embedder.query('!"cat"', 128)
    assert short.unlike[0].row[0].max() < 128
    assert short.chance == 0.0


def dense(row):
    z = np.zeros(2048, np.float32)
    z[row[0]] = row[1]
    return z


def test_a_text_that_is_the_whole_query_needs_no_quotes(embedders):
    local = embedders["local"]
    for text in ("sunset at the beach", "dog", "a man's red t-shirt"):
        bare, quoted = local.query(text), local.query(f'"{text}"')
        assert bare.expression == quoted.expression
        np.testing.assert_array_equal(bare.parts[0][1], quoted.parts[0][1])


def test_a_query_of_another_model_is_refused(index, embedders):
    with pytest.raises(FingerprintMismatch):
        index.search("dim:1", through=embedders["local"])
