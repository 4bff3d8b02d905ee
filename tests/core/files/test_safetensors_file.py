"""safetensors files: what is written is what the format's own package reads, and places do not move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid
from nonneg_core.files import safetensors_file

ARRAYS = {"weight": np.arange(6, dtype=np.float16).reshape(2, 3), "bias": np.ones(3, dtype=np.float32)}


def test_the_formats_own_package_reads_what_was_written(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors_file.write(tmp_path / "a", ARRAYS, {"power": "0.6"})
    found = safetensors.load_file(tmp_path / "a")
    assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in ARRAYS.items()}


def test_what_was_written_is_read_back_with_its_metadata(tmp_path: Path) -> None:
    safetensors_file.write(tmp_path / "a", ARRAYS, {"power": "0.6"})
    found = safetensors_file.read(tmp_path / "a")
    assert found.metadata == {"power": "0.6"}
    assert all((found.arrays[name] == array).all() for name, array in ARRAYS.items())


def test_with_a_header_of_a_fixed_size_arrays_stay_in_their_places(tmp_path: Path) -> None:
    for name, said in (("a", "x"), ("b", "x" * 500)):
        safetensors_file.write(tmp_path / name, ARRAYS, {"said": said}, header=4096)
    first, second = (safetensors_file.read(tmp_path / name).offsets for name in "ab")
    assert first == second == {"weight": 4096, "bias": 4108}
    raw = (tmp_path / "b").read_bytes()
    assert np.frombuffer(raw, np.float16, 6, offset=4096).tolist() == list(range(6))


def test_a_header_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match="of 4096"):
        safetensors_file.write(tmp_path / "a", ARRAYS, {"said": "x" * 5000}, header=4096)
    assert not (tmp_path / "a").exists()
