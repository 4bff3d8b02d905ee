"""The compact form: as small as promised, read back, read by the thirty lines of the docs, refused when damaged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg_core.errors import DataInvalid
from nonneg_vectors.storage.packing import LEVELS, pack_sparse, unpack_sparse

PAGE = Path(__file__).parents[3] / "docs" / "compact.md"


def drawn(count: int, dimensions: int = 2048, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    indices = np.sort(rng.choice(dimensions, count, replace=False))
    return indices, rng.random(count).astype(np.float32) + 0.2


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5000), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_indices_are_read_back_and_values_to_half_a_level(dimensions: int, share: float, seed: int) -> None:
    indices, values = drawn(int(share * dimensions), dimensions, seed)
    found, levels = unpack_sparse(pack_sparse(indices, values, dimensions), dimensions)
    assert found.tolist() == indices.tolist()
    if len(values):
        bounded = np.maximum(values, values.max() / LEVELS)
        assert np.abs(levels - bounded).max() <= values.max() * (0.5 / LEVELS + 0.001)


@pytest.mark.parametrize(("count", "most"), [(205, 240), (128, 165), (64, 90)])
def test_it_is_as_small_as_promised(count: int, most: int) -> None:
    assert max(len(pack_sparse(*drawn(count, seed=seed), 2048)) for seed in range(50)) <= most


def test_a_vector_without_active_dimensions_is_four_bytes() -> None:
    nothing = np.zeros(0, dtype=np.int32)
    data = pack_sparse(nothing, nothing.astype(np.float32), 2048)
    assert data == bytes(4)
    assert [part.tolist() for part in unpack_sparse(data, 2048)] == [[], []]


def test_every_byte_is_as_written_down() -> None:
    # dimensions 16, count 3: r = round(log2(.69 * 16 / 3)) = 2; gaps 1, 0, 9 -> 0 01, 0 00, 110 01; levels 15, 7, 3
    data = pack_sparse(np.array([1, 2, 12]), np.array([1.0, 0.5, 0.25]), 16)
    bits = "001" + "000" + "11001" + "1111" + "0111" + "0011"
    assert data == bytes([0, 3, 0x3C, 0]) + int(bits.ljust(24, "0"), 2).to_bytes(3, "big")


def test_the_reader_of_the_docs_reads_what_is_written() -> None:
    (source,) = re.findall(r"```python\n(def read\(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(source.splitlines()) <= 30
    names: dict[str, Any] = {}
    exec(source, names)
    read: Callable[[bytes, int], dict[int, float]] = names["read"]
    indices, values = drawn(205)
    data = pack_sparse(indices, values, 2048)
    exact = dict(zip(*(part.tolist() for part in unpack_sparse(data, 2048)), strict=True))
    assert read(data, 2048) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("damage", [lambda d: d[:3], lambda d: d[:60], lambda d: d[:4] + b"\xff" * (len(d) - 4)])
def test_what_is_damaged_is_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DataInvalid, match="not a compact vector"):
        unpack_sparse(damage(pack_sparse(*drawn(205), 2048)), 2048)


@pytest.mark.parametrize("size", [1e-9, 1e6])
def test_values_that_a_half_cannot_hold_stay_at_its_ends(size: float) -> None:
    _, values = unpack_sparse(pack_sparse(np.array([3]), np.array([size], np.float32), 16), 16)
    assert 2.0**-28 <= values[0] <= 65504


def test_more_active_dimensions_than_a_count_holds_are_refused() -> None:
    with pytest.raises(DataInvalid, match="70000 active"):
        pack_sparse(np.arange(70_000), np.ones(70_000), 100_000)
