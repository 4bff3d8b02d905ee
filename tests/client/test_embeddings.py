"""Embeddings: one value with a dense and a sparse face."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nonneg_client import Embeddings, shorten
from nonneg_client.errors import DataInvalid, FingerprintMismatch, ParameterInvalid

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
    with pytest.raises(ParameterInvalid, match="exceeds this model's 3"):
        Embeddings.from_dense(np.eye(3), fingerprint="f").shorten(4)


def test_ids_must_be_one_a_vector():
    with pytest.raises(DataInvalid, match="1 ids for 2 vectors"):
        Embeddings.from_dense(np.eye(2), fingerprint="f", ids=("a",))


def test_two_models_are_not_compared():
    with pytest.raises(FingerprintMismatch, match="f and of g"):
        Embeddings.from_dense(np.eye(2), fingerprint="f").same_model(Embeddings.from_dense(np.eye(2), fingerprint="g"))
