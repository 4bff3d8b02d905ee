"""The local index and the one in memory, against brute force over the same vectors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nonneg_core.errors import ConfigInvalid, DataInvalid, FingerprintMismatch, StorageFailed
from nonneg_vectors import Embeddings
from nonneg_vectors.expressions.weightings import ColumnStatistics, Lines
from nonneg_vectors.search.index import Index, describe
from nonneg_vectors.search.query_and_hits import Hit, HitLimits, marked

N = 400
ONE = np.int32([60]), np.float32([1])  # a query of one dimension


@pytest.fixture(scope="module")
def vectors(random_embeddings):
    return random_embeddings(N, 64)


@pytest.fixture(scope="module")
def payloads():
    return [{"label": "cat" if i % 3 else "dog", "year": 2000 + i % 20, "good": i % 2 == 0} for i in range(N)]


@pytest.fixture(scope="module", params=["folder", "memory"])
def index(request, vectors, payloads, tmp_path_factory):
    if request.param == "memory":
        yield Index.of(vectors, payloads)
        return
    with Index.open(tmp_path_factory.mktemp("search") / "index", like=vectors) as index:
        index.add(vectors, payloads)
        yield index


@pytest.fixture
def stored(index, vectors):
    """The vectors as the index holds them: a folder keeps twelve bits of a value."""
    return index.engine.get(vectors.ids)


def test_a_folder_keeps_every_dimension_and_twelve_bits_of_its_value(index, vectors, stored):
    assert stored.ids == vectors.ids
    assert (stored.indices == vectors.indices).all()
    largest = vectors.numpy().max(axis=1, keepdims=True)
    assert (abs(stored.numpy() - vectors.numpy()) <= largest / 4095).all()


def brute(vectors, query, k, keep=lambda i: True):
    scores = vectors.numpy() @ query
    order = [i for i in np.lexsort((np.arange(N), -scores)) if scores[i] > 0 and keep(i)]
    return [(vectors.ids[i], float(scores[i])) for i in order[:k]]


def same(hits, expected):
    """Equal scores at every place, and equal ids wherever scores are apart."""
    np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], rtol=1e-5)
    scores = [score for _, score in expected]
    for place, (hit, (name, score)) in enumerate(zip(hits, expected, strict=True)):
        apart = all(abs(score - other) > 1e-6 for i, other in enumerate(scores) if i != place)
        assert hit.id == name or not apart or place == len(hits) - 1


@pytest.mark.parametrize("i", range(0, N, 37))
def test_the_nearest_are_those_that_brute_force_finds(index, vectors, stored, i):
    hits = index.search(vectors[i], k=10)
    same(hits, brute(stored, vectors[i].numpy()[0], 10))
    assert hits[0].id == vectors.ids[i]
    assert hits[0].score == pytest.approx(1, abs=1e-5)


def test_the_reasons_are_the_largest_parts_of_the_score(index, vectors, stored):
    hit = index.search(vectors[3], k=2)[1]
    parts = vectors.numpy()[3] * stored.numpy()[vectors.ids.index(hit.id)]
    expected = [d for d in np.argsort(-parts, kind="stable")[:5] if parts[d] > 0]
    assert [dimension for dimension, _ in hit.reasons] == expected
    np.testing.assert_allclose([part for _, part in hit.reasons], parts[expected], rtol=1e-5)


@pytest.mark.parametrize(
    ("where", "keep"),
    [
        ({"label": "dog"}, lambda p: p["label"] == "dog"),
        ({"label": ["dog", "cow"]}, lambda p: p["label"] == "dog"),
        ({"year": {"gte": 2003, "lt": 2006}}, lambda p: 2003 <= p["year"] < 2006),
        ({"year": 2004, "good": True}, lambda p: p["year"] == 2004 and p["good"]),
        ({"year": 2004.0}, lambda p: p["year"] == 2004),
        ({"label": "cow"}, lambda p: False),
    ],
    ids=["equal", "one of", "range", "both", "float", "none"],
)
def test_conditions_on_the_payload_hold_and_cost_no_hit(index, vectors, stored, payloads, where, keep):
    hits = index.search(vectors[7], k=20, where=where)
    same(hits, brute(stored, vectors[7].numpy()[0], 20, lambda i: keep(payloads[i])))
    assert all(keep(hit.payload) for hit in hits)


def test_dimensions_may_be_asked_for_and_forbidden(index, vectors, stored):
    z = vectors.numpy()
    hits = index.by_dimensions({3: 1.0, 1: 0.5}, k=8, without=[0, 2])
    query = np.zeros(64, np.float32)
    query[[3, 1]] = 1.0, 0.5
    same(hits, brute(stored, query, 8, lambda i: not z[i, [0, 2]].any()))
    assert len(hits) == 8


def test_unwanted_dimensions_hold_however_many_hits_they_cost(index, vectors, stored):
    z = vectors.numpy()
    forbidden = [d for d in range(64) if d != 1][:20]
    expected = brute(stored, np.eye(64, dtype=np.float32)[1], 10, lambda i: not z[i, forbidden].any())
    same(index.by_dimensions({1: 1.0}, k=10, without=forbidden), expected)


def test_what_is_added_again_replaces_what_was_there(random_embeddings, tmp_path):
    first, second = random_embeddings(20), random_embeddings(20, seed=1)
    with Index.open(tmp_path / "x", like=first) as index:
        index.add(first)
        index.add(second.named(first.ids)[:10], [{"round": 2}] * 10)
        assert len(index) == 20
        hit = index.search(second[4], k=1)[0]
        assert (hit.id, hit.payload) == (first.ids[4], {"round": 2})
        assert hit.score == pytest.approx(1, abs=1e-5)


def test_what_is_deleted_is_not_found(random_embeddings, tmp_path):
    vectors = random_embeddings(20)
    with Index.open(tmp_path / "x", like=vectors) as index:
        index.add(vectors)
        index.delete([vectors.ids[4], "never there"])
        assert len(index) == 19
        assert vectors.ids[4] not in [hit.id for hit in index.search(vectors[4], k=20)]


def test_an_index_lasts(random_embeddings, tmp_path):
    vectors = random_embeddings(50)
    with Index.open(tmp_path / "x", like=vectors) as index:
        index.add(vectors, [{"n": i} for i in range(50)])
        before = index.search(vectors[9], k=5)
    with Index.open(tmp_path / "x") as index:
        assert len(index) == 50
        assert index.search(vectors[9], k=5) == before
        assert index.engine.payloads()[vectors.ids[9]] == {"n": 9}
        index.add(vectors[:1].named(["another"]))
    with Index.open(tmp_path / "x") as index:
        assert len(index) == 51


def test_what_was_added_survives_a_process_that_dies(random_embeddings, tmp_path):
    script = (
        "import os, sys, numpy as np; from nonneg_vectors import Embeddings, Index\n"
        "e = Embeddings.from_dense(np.eye(9), fingerprint='f' * 32, ids=tuple('abcdefghi'))\n"
        "index = Index.open(sys.argv[1], like=e); index.add(e); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "x")], timeout=60, check=False)
    with Index.open(tmp_path / "x") as index:
        assert len(index) == 9


def test_many_additions_stay_exact(random_embeddings, tmp_path):
    vectors = random_embeddings(N, 64)
    with Index.open(tmp_path / "x", like=vectors) as index:
        for start in range(0, N, 50):
            index.add(vectors[start : start + 50])
        stored = index.engine.get(vectors.ids)
        same(index.search(vectors[5], k=10), brute(stored, vectors[5].numpy()[0], 10))


def test_two_models_do_not_meet_in_an_index(index, vectors, random_embeddings, tmp_path):
    other = random_embeddings(5, fingerprint="other")
    for act in (lambda: index.add(other), lambda: index.search(other[0])):
        with pytest.raises(FingerprintMismatch):
            act()
    with pytest.raises(FingerprintMismatch), Index.open(tmp_path / "one", like=vectors):
        Index.open(tmp_path / "one", like=other)


def test_another_length_is_refused_with_the_way_out(index, vectors):
    with pytest.raises(DataInvalid, match="64 dimensions, these have 16"):
        index.search(vectors[0].shorten(16))


def test_vectors_that_are_not_of_length_one_are_made_so(random_embeddings, tmp_path):
    vectors = random_embeddings(10)
    raw = vectors.shorten(normalize=False)
    longer = replace(raw, values=raw.values * 7)
    with Index.open(tmp_path / "x", like=longer) as index:
        index.add(longer)
        assert index.search(longer[2], k=1)[0].score == pytest.approx(1, abs=1e-5)


def test_a_zero_vector_may_be_stored_and_is_near_to_nothing(tmp_path):
    vectors = Embeddings.from_dense([[1, 0, 0], [0, 0, 0]], fingerprint="f", ids=("a", "zero"))
    with Index.open(tmp_path / "x", like=vectors) as index:
        index.add(vectors)
        assert len(index) == 2
        assert index.search(vectors[1]) == []
        assert [hit.id for hit in index.search(vectors[0])] == ["a"]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda index, v: index.search(v[:2]), "one vector, not 2"),
        (lambda index, v: index.search(v[0], k=0), "asks for nothing"),
        (lambda index, v: index.search(v[0], where={"x": None}), "not a condition"),
        (lambda index, v: index.search(v[0], where={"x": {"above": 3}}), "not a condition"),
        (lambda index, v: index.search(v[0], where={"x": []}), "not a condition"),
        (lambda index, v: index.search(v[0], where={"x": {"gte": "old"}}), "range of numbers"),
        (lambda index, v: index.search(v[0], without=[3, 64]), "dimension=64 is not one of"),
        (lambda index, v: index.by_dimensions({64: 1.0}), "dimension=64 is not one of"),
        (lambda index, v: index.by_dimensions({3: 1.0}, without=[-1]), "dimension=-1 is not one of"),
        (lambda index, v: index.by_dimensions({}), "with a weight above 0"),
        (lambda index, v: index.by_dimensions({1: -1.0}), "with a weight above 0"),
        (lambda index, v: index.add(v.named(None)), "without ids"),
        (lambda index, v: index.add(v, [{}]), "1 payloads"),
        (lambda index, v: index.add(v[:1], [{"id": "mine"}]), "field id"),
    ],
)
def test_what_makes_no_sense_is_refused(index, vectors, act, message):
    with pytest.raises((ConfigInvalid, DataInvalid), match=message):
        act(index, vectors)


def test_a_folder_that_is_not_an_index_is_named(tmp_path):
    with pytest.raises(DataInvalid, match="is not an index"):
        Index.open(tmp_path)
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(DataInvalid, match="damaged"):
        Index.open(tmp_path)
    (tmp_path / "index.json").write_text('{"fingerprint": "f", "dimensions": 3}')
    with pytest.raises(StorageFailed, match="cannot be opened"):
        Index.open(tmp_path)


def test_an_index_that_may_not_be_written_is_searched_all_the_same_and_says_what_it_refuses(vectors, tmp_path):
    with Index.open(tmp_path / "index", like=vectors) as index:
        index.add(vectors)
    for path in [*tmp_path.rglob("*"), tmp_path / "index"]:
        path.chmod(0o555)
    script = (
        "import sys; from nonneg_vectors import Index\n"
        "index = Index.open(sys.argv[1]); print(len(index.by_dimensions({3: 1.0}))); index.delete(['photos/00000.jpg'])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "index")]
    if os.geteuid() == 0:  # root may write everywhere, unless it gives that up
        if not shutil.which("setpriv"):
            pytest.skip("as root, without setpriv")
        command = ["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "10\n"
    assert "cannot be written" in done.stderr
    assert "who may write there" in done.stderr


def test_an_index_is_not_made_in_a_folder_of_something_else(vectors, tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(DataInvalid, match="not empty"):
        Index.open(tmp_path, like=vectors)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_place_that_cannot_be_written_is_named(vectors, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="cannot be written"):
        Index.open(tmp_path / "file" / "x", like=vectors)


def test_hits_that_random_photos_may_reach_are_marked_and_left_out_where_matches_alone_are_wanted(
    random_embeddings, tmp_path
):
    vectors = random_embeddings(200, 64)
    z = vectors.numpy().astype(np.float64)
    statistics = ColumnStatistics(z.mean(axis=0), z.var(axis=0), (z > 0).mean(axis=0))
    chance = statistics.at(64)
    with Index.open(tmp_path / "index", like=vectors, statistics=statistics) as index:
        index.add(vectors)
        line = chance.line([vectors.row(3)])
        hits = index.search(vectors[3], k=200)
        assert [hit.match for hit in hits] == [hit.score >= line for hit in hits]
        assert {hit.match for hit in hits} == {True, False}
        matches = index.search(vectors[3], k=200, matches_only=True)
        assert matches == [hit for hit in hits if hit.match]
        assert index.search(vectors[3], k=200, matches_only=True, exclude=[hit.id for hit in matches]) == []
        by_dimension = index.by_dimensions({60: 1.0}, k=200)
        assert [hit.match for hit in by_dimension] == [hit.score >= chance.line([ONE]) for hit in by_dimension]
        both = index.search("dim:1 & dim:60", k=200, matches_only=True)
        assert all(hit.match for hit in both)


def test_an_index_of_cut_vectors_has_one_line_for_photos_and_for_expressions(random_embeddings, tmp_path):
    vectors = random_embeddings(300, 64)
    z = vectors.numpy().astype(np.float64)
    statistics = ColumnStatistics(z.mean(axis=0), z.var(axis=0), (z > 0).mean(axis=0))
    held = replace(describe(vectors), kept=5)
    with Index.open(tmp_path / "index", like=held, statistics=statistics) as index:
        index.add(vectors.shorten(top_k=5))
        query = index.read("dim:32")
        of_whole_vectors = statistics.at(64).line(query.parts)
        hits = index.search(replace(query, chance=of_whole_vectors), 300)
        line = statistics.at(64, 5).line(query.parts)
        assert [hit.match for hit in hits] == [hit.score >= line for hit in hits]
        assert [hit.match for hit in hits] != [hit.score >= of_whole_vectors for hit in hits]
        index.know(None)
        asked = index.search(replace(query, chance=0.5), 300)
        assert [hit.match for hit in asked] == [hit.score >= 0.5 for hit in asked]


def test_matches_are_not_told_apart_where_the_models_statistics_are_not_at_hand(random_embeddings, tmp_path):
    vectors = random_embeddings(20, 64)
    with Index.open(tmp_path / "index", like=vectors) as index:
        index.add(vectors)
        assert {hit.match for hit in index.search(vectors[3])} == {None}
        with pytest.raises(ConfigInvalid, match="not known") as refused:
            index.search(vectors[3], matches_only=True)
        assert "--bundle" in str(refused.value.fix)


def test_nothing_matches_where_the_best_hit_is_below_its_line_and_others_match_from_their_own_line_on():
    lines = Lines(best=0.5, others=0.3)
    near, far = ([Hit(str(i), score, {}) for i, score in enumerate(scores)] for scores in ((0.6, 0.4, 0.2), (0.4, 0.2)))
    assert [hit.match for hit in marked(near, lines, HitLimits())] == [True, True, False]
    assert [hit.match for hit in marked(far, lines, HitLimits())] == [False, False]
    assert marked(far, lines, HitLimits(matches_only=True)) == []
