"""Embeddings: one value with a dense and a sparse face."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nonneg_client import Embeddings, shorten
from nonneg_core.errors import DataInvalid, FingerprintMismatch, ParameterInvalid

BATCHES = st.tuples(st.integers(0, 5), st.integers(1, 12)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.5]))
)


@given(BATCHES)
def test_dense_to_sparse_and_back_is_exact(z):
    embeddings = Embeddings.from_dense(z, fingerprint="f")
    np.testing.assert_array_equal(embeddings.numpy(), z)
    assert len(embeddings) == len(z)
    assert embeddings.nnz.tolist() == (z > 0).sum(axis=1).tolist()


@given(BATCHES)
def test_indices_are_sorted_and_unique_in_each_row(z):
    for indices, values in Embeddings.from_dense(z, fingerprint="f"):
        assert (np.diff(indices) > 0).all()
        assert (values > 0).all()


@given(BATCHES)
def test_rows_rebuild_the_whole(z):
    embeddings = Embeddings.from_dense(z, fingerprint="f")
    rebuilt = Embeddings.from_rows(list(embeddings), dimensions=z.shape[1], fingerprint="f")
    np.testing.assert_array_equal(rebuilt.numpy(), z)


def test_the_csr_face_holds_the_same_numbers():
    z = np.float32([[0, 1, 0], [0, 0, 0], [2, 0, 3]])
    np.testing.assert_array_equal(Embeddings.from_dense(z, fingerprint="f").csr().toarray(), z)


@given(BATCHES, st.data())
def test_it_shortens_as_the_server_does(z, data):
    k = data.draw(st.integers(1, z.shape[1]))
    top_k = data.draw(st.none() | st.integers(1, 12))
    short = Embeddings.from_dense(z, fingerprint="f").shorten(k, top_k)
    np.testing.assert_allclose(short.numpy(), shorten(z, k, top_k), rtol=1e-6)
    assert short.dimensions == k


def test_shortening_keeps_ids_and_fingerprint():
    short = Embeddings.from_dense(np.eye(3), fingerprint="f", model="m", ids=("a", "b", "c")).shorten(2)
    assert (short.fingerprint, short.model, short.ids) == ("f", "m", ("a", "b", "c"))


def test_more_dimensions_than_there_are_is_refused():
    with pytest.raises(ParameterInvalid, match="exceeds these vectors' 3"):
        Embeddings.from_dense(np.eye(3), fingerprint="f").shorten(4)


def test_ids_must_be_one_a_vector():
    with pytest.raises(DataInvalid, match="1 ids for 2 vectors"):
        Embeddings.from_dense(np.eye(2), fingerprint="f", ids=("a",))


def test_two_models_are_not_compared():
    with pytest.raises(FingerprintMismatch, match="f and of g"):
        Embeddings.from_dense(np.eye(2), fingerprint="f").same_model(Embeddings.from_dense(np.eye(2), fingerprint="g"))


@given(BATCHES, st.data())
def test_some_vectors_are_picked_as_numpy_picks_rows(z, data):
    embeddings = Embeddings.from_dense(z, fingerprint="f", ids=tuple(map(str, range(len(z)))))
    n = len(z)
    wanted = [slice(None, None, 2), slice(1, 4), slice(3, 1), slice(None, None, -1)]
    wanted.append(data.draw(arrays(bool, n)))
    wanted.append(np.array(data.draw(st.lists(st.integers(-n, n - 1), max_size=5)) if n else [], dtype=int))
    for which in wanted:
        np.testing.assert_array_equal(embeddings[which].numpy(), z[which])
        assert embeddings[which].ids == tuple(np.array([str(i) for i in range(n)])[which])


def test_one_vector_is_embeddings_too(random_embeddings):
    embeddings = random_embeddings()
    np.testing.assert_array_equal(embeddings[-1].numpy(), embeddings.numpy()[-1:])
    with pytest.raises(IndexError):
        embeddings[50]


def test_a_run_of_rows_is_not_copied(random_embeddings):
    embeddings = random_embeddings()
    assert embeddings[10:20].values.base is not None
    assert np.shares_memory(embeddings[10:20].values, embeddings.values)


@given(BATCHES, st.lists(st.integers(0, 5), max_size=3))
def test_what_is_cut_apart_can_be_put_together(z, cuts):
    embeddings = Embeddings.from_dense(z, fingerprint="f", ids=tuple(map(str, range(len(z)))))
    edges = [0, *sorted(min(cut, len(z)) for cut in cuts), len(z)]
    whole = Embeddings.concatenate([embeddings[a:b] for a, b in itertools.pairwise(edges)])
    np.testing.assert_array_equal(whole.numpy(), z)
    assert whole.ids == embeddings.ids


def test_what_does_not_belong_together_is_not_put_together(random_embeddings):
    one = random_embeddings()
    with pytest.raises(FingerprintMismatch):
        Embeddings.concatenate([one, random_embeddings(fingerprint="other")])
    with pytest.raises(DataInvalid, match="64 and of 32"):
        Embeddings.concatenate([one, one.shorten(32)])
    with pytest.raises(DataInvalid, match="normalised"):
        Embeddings.concatenate([one, one.shorten(normalize=False)])
    with pytest.raises(DataInvalid, match="nothing"):
        Embeddings.concatenate([])


def test_similarity_is_the_cosine(random_embeddings):
    a, b = random_embeddings(5), random_embeddings(7, seed=1)
    expected = [[np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y) for y in b.numpy()] for x in a.numpy()]
    np.testing.assert_allclose(a.similarity(b), expected, atol=1e-6)
    np.testing.assert_allclose(np.diag(a.similarity()), 1, atol=1e-6)


def test_similarity_of_two_models_is_refused(random_embeddings):
    with pytest.raises(FingerprintMismatch):
        random_embeddings().similarity(random_embeddings(fingerprint="other"))


def test_an_explanation_adds_up_to_the_cosine_largest_part_first(random_embeddings):
    a = random_embeddings(6)
    parts = a.explain(0, 3)
    assert sum(part for _, part in parts) == pytest.approx(float(a.similarity()[0, 3]), abs=1e-6)
    assert [part for _, part in parts] == sorted((part for _, part in parts), reverse=True)
    assert {d for d, _ in parts} == set(a.row(0)[0].tolist()) & set(a.row(3)[0].tolist())


def test_sparsity_is_the_share_of_zeros():
    assert Embeddings.from_dense([[1, 0, 0, 0], [1, 1, 0, 0]], fingerprint="f").sparsity() == pytest.approx(5 / 8)


def test_rows_with_zeros_from_a_server_are_kept_without_them():
    pair = (np.array([0, 2], np.int32), np.array([0.0, 1.0], np.float32))
    embeddings = Embeddings.from_rows([pair], dimensions=3, fingerprint="f")
    assert embeddings.row(0)[0].tolist() == [2]


def test_signed_vectors_make_no_embeddings() -> None:
    with pytest.raises(DataInvalid, match="go below zero"):
        Embeddings.from_dense([[0.5, -0.25]], fingerprint="f")
