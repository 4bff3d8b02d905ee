"""Files of embeddings: what is written is what is read, exactly or to the stated precision."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nonneg_core.errors import ConfigInvalid, DataInvalid, StorageFailed
from nonneg_vectors import Embeddings
from nonneg_vectors.storage import parquet
from nonneg_vectors.storage import safetensors_files as safetensors
from nonneg_vectors.storage.vector_files import FORMATS

EXACT = [".npz", ".safetensors", ".npy"]
NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)


@st.composite
def embeddings(draw):
    shape = draw(st.integers(0, 6)), draw(st.integers(1, 20))
    values = st.one_of(st.just(0.0), st.floats(2.0**-12, 1.0, width=32))
    z = draw(arrays(np.float32, shape, elements=values))
    ids = draw(st.none() | st.lists(NAMES, min_size=shape[0], max_size=shape[0]))
    return Embeddings.from_dense(
        z,
        fingerprint=draw(NAMES),
        model=draw(NAMES),
        normalized=draw(st.booleans()),
        ids=None if ids is None else tuple(ids),
    )


def same(found, expected):
    assert (found.fingerprint, found.model, found.normalized, found.dimensions) == (
        expected.fingerprint, expected.model, expected.normalized, expected.dimensions,
    )  # fmt: skip
    assert found.ids == expected.ids
    assert found.indptr.dtype == np.int64
    assert found.indices.dtype == np.int32
    assert found.values.dtype == np.float32


@pytest.mark.parametrize("suffix", EXACT)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(original=embeddings())
def test_exact_forms_give_back_every_bit(suffix, original, tmp_path):
    path = tmp_path / f"x{suffix}"
    original.save(path)
    found = Embeddings.load(path)
    same(found, original)
    np.testing.assert_array_equal(found.numpy(), original.numpy())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(original=embeddings())
def test_parquet_gives_back_eleven_bits(original, tmp_path):
    original.save(tmp_path / "x.parquet")
    found = Embeddings.load(tmp_path / "x.parquet")
    same(found, original)
    np.testing.assert_allclose(found.numpy(), original.numpy(), rtol=2.0**-11)


def test_scipy_reads_the_npz(random_embeddings, tmp_path):
    from scipy.sparse import load_npz

    random_embeddings().save(tmp_path / "x.npz")
    np.testing.assert_array_equal(load_npz(tmp_path / "x.npz").toarray(), random_embeddings().numpy())


def test_the_safetensors_package_reads_ours(random_embeddings, tmp_path):
    from safetensors import safe_open

    original = random_embeddings()
    original.save(tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "np") as file:
        np.testing.assert_array_equal(file.get_tensor("values"), original.values)
        np.testing.assert_array_equal(file.get_tensor("indices"), original.indices)
        assert file.metadata()["fingerprint"] == original.fingerprint


def test_safetensors_are_mapped_not_read(random_embeddings, tmp_path):
    random_embeddings().save(tmp_path / "x.safetensors")
    assert isinstance(safetensors.load_safetensors(tmp_path / "x.safetensors").values, np.memmap)


def test_pyarrow_reads_the_parquet_as_u16_and_f16(random_embeddings, tmp_path):
    import pyarrow.parquet as pq

    original = random_embeddings()
    original.save(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")
    assert str(table.schema.field("indices").type) == "list<element: uint16>"
    assert str(table.schema.field("values").type) == "list<element: halffloat>"
    assert table.column("indices")[3].as_py() == original.row(3)[0].tolist()
    assert table.column("id")[3].as_py() == original.ids[3]


def test_a_large_file_is_read_a_row_group_at_a_time(random_embeddings, tmp_path):
    parquet.save(random_embeddings(50), tmp_path / "x.parquet", rows=20)
    assert [len(part) for part in parquet.parts(tmp_path / "x.parquet")] == [0, 20, 20, 10]


def test_numpy_reads_the_npy_as_a_dense_array(random_embeddings, tmp_path):
    random_embeddings().save(tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), random_embeddings().numpy())


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("damage", ["empty", "text", "cut", "flipped"])
def test_a_damaged_file_is_named_and_never_half_loaded(suffix, damage, random_embeddings, tmp_path):
    path = tmp_path / f"x{suffix}"
    random_embeddings().save(path)
    data = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "text": b"not what you think it is, dear reader",
            "cut": data[: len(data) // 2],
            "flipped": bytes(255 - b for b in data[:40]) + data[40:],
        }[damage]
    )
    with pytest.raises(DataInvalid, match=str(path)):
        Embeddings.load(path)


def test_values_and_indices_from_outside_are_checked(random_embeddings, tmp_path):
    good = random_embeddings()
    bad = [
        replace(good, values=-good.values),
        replace(good, values=np.full_like(good.values, np.nan)),
        replace(good, indices=good.indices[::-1].copy()),
        replace(good, indices=good.indices + 60),
    ]
    for i, wrong in enumerate(bad):
        wrong.save(tmp_path / f"{i}.npz")
        with pytest.raises(DataInvalid):
            Embeddings.load(tmp_path / f"{i}.npz")


def test_a_missing_file_and_an_unknown_suffix_are_said(random_embeddings, tmp_path):
    with pytest.raises(DataInvalid, match="is not there"):
        Embeddings.load(tmp_path / "x.npz")
    with pytest.raises(ConfigInvalid, match="no suffix"):
        random_embeddings().save(tmp_path / "x.csv")


@pytest.mark.parametrize("suffix", FORMATS)
def test_no_space_left_leaves_the_old_file_and_nothing_half_written(suffix, random_embeddings, tmp_path):
    """On a file system of 300 kB where there is the right to mount one; a file size limit does elsewhere."""
    script = (
        "import resource, signal, sys; from nonneg_vectors import Embeddings; import numpy as np\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "e = Embeddings.from_dense(np.random.default_rng(0).random((2000, 300)), fingerprint='f')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "from nonneg_core.errors import StorageFailed\n"
        "try: e.save(sys.argv[1])\n"
        "except StorageFailed as error: print(error)\n"
    )
    path = tmp_path / f"x{suffix}"
    random_embeddings().save(path)
    before = sorted(p.name for p in tmp_path.iterdir()), path.read_bytes()
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)
    assert "cannot be written" in done.stdout, done.stderr
    assert (sorted(p.name for p in tmp_path.iterdir()), path.read_bytes()) == before


def test_a_full_disk_is_called_so(random_embeddings, tmp_path, monkeypatch):
    def full(self, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageFailed, match="no space left"):
        random_embeddings().save(tmp_path / "x.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said(random_embeddings, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="cannot be written"):
        random_embeddings().save(tmp_path / "file" / "x.npz")


def test_packed_vectors_keep_their_dimensions_and_nearly_their_values(random_embeddings, tmp_path):
    written = random_embeddings().shorten(top_k=5)
    written.save(tmp_path / "x.packed")
    read = Embeddings.load(tmp_path / "x.packed")
    assert (read.ids, read.model, read.fingerprint) == (written.ids, written.model, written.fingerprint)
    before, after = written.numpy(), read.numpy()
    assert ((before > 0) == (after > 0)).all()
    alike = (before * after).sum(axis=1)[before.any(axis=1)]
    assert alike.min() > 0.99
