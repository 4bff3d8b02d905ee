"""Vectors as bits, against bits that are made and counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid, FingerprintMismatch, ParameterInvalid
from nonneg_vectors import BitForm, BitVectors, Embeddings
from nonneg_vectors.storage import bits


def vectors(rows: int, width: int, seed: int = 0) -> np.ndarray:
    """Vectors of length one, half of whose values are zero."""
    z = np.maximum(np.random.default_rng(seed).normal(size=(rows, width)), 0).astype(np.float32)
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def statistics(width: int, seed: int = 1) -> tuple[list[float], list[float]]:
    z = vectors(50, width, seed)
    return z.mean(axis=0).tolist(), z.var(axis=0).tolist()


def one_by_one(z: np.ndarray, means: list[float], variances: list[float]) -> list[list[int]]:
    """The bits of each vector, the column of largest variance first."""
    order = sorted(range(len(means)), key=lambda j: -variances[j])[: bits.MOST]
    return [[int(row[j] / np.sqrt((row**2).sum()) > np.float32(means[j])) for j in order] for row in z]


@pytest.mark.parametrize(("width", "bytes_"), [(20, 3), (1500, 160)])
def test_a_bit_is_set_where_a_column_of_large_variance_is_above_its_mean(width: int, bytes_: int) -> None:
    z, (means, variances) = vectors(7, width), statistics(width)
    packed = BitForm.of(means, variances).pack(z * 3)  # whatever its length is
    assert packed.shape == (7, bytes_)
    expected = one_by_one(z, means, variances)
    np.testing.assert_array_equal(np.unpackbits(packed, axis=1, count=len(expected[0])), expected)


def test_the_first_bits_are_a_form_by_themselves() -> None:
    z, form = vectors(4, 64), BitForm.of(*statistics(64))
    np.testing.assert_array_equal(form.first(16).pack(z), form.pack(z)[:, :2])
    assert len(form.first(None)) == 64
    with pytest.raises(ParameterInvalid, match="65"):
        form.first(65)


def test_a_vector_of_zeros_sets_no_bit() -> None:
    assert not BitForm.of(*statistics(24)).pack(np.zeros((2, 24), np.float32)).any()


def test_whole_vectors_weigh_bits_by_how_far_they_lie_from_the_means() -> None:
    means, variances = statistics(40)
    form, stored, asking = BitForm.of(means, variances), vectors(9, 40), vectors(3, 40, 5)
    found = form.scores(asking, form.pack(stored))
    order = sorted(range(40), key=lambda j: -variances[j])
    for i, q in enumerate(asking):
        weights = [float(q[j]) - means[j] for j in order]
        for j, given in enumerate(one_by_one(stored, means, variances)):
            dot = sum(w if bit else -w for w, bit in zip(weights, given, strict=True))
            assert found[i, j] == pytest.approx(dot / np.sqrt(40 * sum(w * w for w in weights)), abs=1e-5)


def test_shortened_vectors_have_no_bits() -> None:
    with pytest.raises(DataInvalid, match="10 dimensions; bits are made and asked with all 24"):
        BitForm.of(*statistics(24)).pack(vectors(2, 10))


def test_a_served_models_form_is_that_of_its_listed_dimensions_in_any_order() -> None:
    means, variances = statistics(30)
    listed = [
        {"dimension": j, "expected_activation": means[j], "variance": variances[j], "name": None} for j in range(30)
    ]
    form, expected = BitForm.of_dimensions(listed[::-1]), BitForm.of(means, variances)
    np.testing.assert_array_equal(form.columns, expected.columns)
    np.testing.assert_array_equal(form.means, expected.means)


@pytest.fixture
def stored() -> BitVectors:
    named = Embeddings.from_dense(vectors(9, 40), fingerprint="f", model="m", ids=tuple("abcdefghi"))
    return BitVectors.of(named, BitForm.of(*statistics(40)))


def test_the_nearest_come_first_and_a_stored_vector_finds_itself(stored: BitVectors) -> None:
    asking = Embeddings.from_dense(vectors(9, 40), fingerprint="f")
    places, scores = stored.nearest(asking, 4)
    assert places.shape == (9, 4)
    np.testing.assert_array_equal(places[:, 0], np.arange(9))
    assert (np.diff(scores, axis=1) <= 0).all()
    np.testing.assert_allclose(scores, -np.sort(-stored.form.scores(asking.numpy(), stored.packed))[:, :4])


def test_vectors_of_another_model_ask_no_bits(stored: BitVectors) -> None:
    with pytest.raises(FingerprintMismatch):
        stored.nearest(Embeddings.from_dense(vectors(1, 40), fingerprint="g"), 1)


@pytest.mark.parametrize("rows", [0, 9])
def test_bits_are_saved_and_loaded_with_their_form_and_ids(stored: BitVectors, rows: int, tmp_path) -> None:
    whole = Embeddings.from_dense(vectors(9, 40), fingerprint="f", model="m", ids=stored.ids)
    BitVectors.of(whole[:rows], stored.form).save(tmp_path / "photos.bits")
    loaded = BitVectors.load(tmp_path / "photos.bits")
    np.testing.assert_array_equal(loaded.packed, stored.packed[:rows])
    assert loaded.ids == stored.ids[:rows]
    assert (loaded.made_of.fingerprint, loaded.made_of.model, loaded.form.dimensions) == ("f", "m", 40)
    np.testing.assert_array_equal(loaded.form.pack(whole.numpy()), stored.packed)


def test_a_file_of_something_else_is_refused_by_name(tmp_path) -> None:
    for path in (tmp_path / "none.bits", tmp_path / "vectors.safetensors"):
        if path.suffix == ".safetensors":
            Embeddings.from_dense(vectors(1, 4), fingerprint="f").save(path)
        with pytest.raises(DataInvalid, match=path.name):
            BitVectors.load(path)
