"""Pairs and neighbours against every inner product computed one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sparse_photos import photos, sparse, unit

from nonneg_core.pixels.pixel_checks import GRID
from nonneg_vectors.curation.neighbours import PairLimits, Scan, Tiling, copies, joined, scanned, starts
from nonneg_vectors.curation.row_blocks import bounding


@pytest.fixture(params=["in full", "projected"])
def tiles(request: pytest.FixtureRequest) -> Tiling:
    """Tiles so small that there are many, with and without the bound in place of the product."""
    small = Tiling(rows=64, columns=50)
    return replace(small, exact=10, share=0.7) if request.param == "projected" else small


def slowly(z: np.ndarray, other: np.ndarray, least: float) -> set[tuple[int, int]]:
    products = [[float(np.dot(a.astype(float), b.astype(float))) for b in other] for a in z]
    return {(i, j) for i, row in enumerate(products) for j, cosine in enumerate(row) if cosine >= least}


@pytest.mark.parametrize("least", [0.5, 0.9, 0.97])
def test_the_pairs_are_exactly_those_at_or_above_the_cosine(least: float, tiles: Tiling) -> None:
    z = photos()
    pairs, _, _ = joined(list(scanned(Scan(sparse(z), PairLimits(similar=least), tiling=tiles))))
    expected = {(i, j) for i, j in slowly(z, z, least) if i < j}
    found = set(zip(pairs.one.tolist(), pairs.other.tolist(), strict=True))
    assert expected
    assert found == expected
    assert pairs.cosine == pytest.approx([float(z[i] @ z[j]) for i, j in zip(pairs.one, pairs.other, strict=True)])


def test_a_pair_exactly_at_the_threshold_is_found_and_one_just_below_is_not() -> None:
    z = np.zeros((3, 8), np.float32)
    z[0, 0] = 1
    z[1, :2] = 0.5, 0.75**0.5  # a cosine of 0.5 exactly
    z[2, 2:4] = 0.6, 0.8
    assert len(joined(list(scanned(Scan(sparse(z), PairLimits(similar=0.5)))))[0]) == 1
    assert len(joined(list(scanned(Scan(sparse(z), PairLimits(similar=0.500001)))))[0]) == 0


def test_two_collections_are_compared_across_and_never_within(tiles: Tiling) -> None:
    a, b = photos(90, seed=1), photos(70, seed=1)
    scan = Scan(sparse(a), PairLimits(similar=0.9), others=sparse(b), tiling=tiles)
    pairs, places, _ = joined(list(scanned(scan)))
    assert set(zip(pairs.one.tolist(), pairs.other.tolist(), strict=True)) == slowly(a, b, 0.9)
    assert places.max() < 70


def test_the_neighbours_are_the_nearest_others_in_order() -> None:
    z = photos()[:-5]  # without copies, so that the order is unique
    _, places, cosines = joined(list(scanned(Scan(sparse(z), PairLimits(), k=7, tiling=Tiling(rows=64, columns=50)))))
    for i in range(len(z)):
        others = sorted((j for j in range(len(z)) if j != i), key=lambda j: -float(z[i] @ z[j]))
        assert cosines[i] == pytest.approx([float(z[i] @ z[j]) for j in others[:7]], abs=1e-6)
        assert float(z[i] @ z[places[i, 0]]) == pytest.approx(float(z[i] @ z[others[0]]), abs=1e-6)


def test_blocks_of_any_order_and_of_several_runs_give_the_same_neighbours() -> None:
    z, limits, tiling = sparse(photos()), PairLimits(), Tiling(rows=64, columns=50)
    whole = joined(list(scanned(Scan(z, limits, k=7, tiling=tiling))))
    begins = list(starts(len(photos()), tiling.rows))
    first, second = (Scan(z, limits, k=7, tiling=tiling) for _ in range(2))
    some = {start: first.block(start) for start in begins[1::2]}
    second.learn(some[begins[1]])
    every = some | {start: second.block(start) for start in reversed(begins[::2])}
    again = joined([every[start] for start in begins])
    np.testing.assert_array_equal(again[1], whole[1])
    np.testing.assert_array_equal(again[2], whole[2])
    np.testing.assert_array_equal(again[0].one, whole[0].one)


def test_fewer_photos_than_neighbours_leave_places_empty() -> None:
    _, places, cosines = joined(list(scanned(Scan(sparse(photos(12)[:3]), PairLimits(), k=5))))
    assert (places[:, 2:] == -1).all()
    assert (cosines[:, 2:] == 0).all()
    one, _, _ = joined(list(scanned(Scan(sparse(photos(12)[:1]), PairLimits(), k=5))))
    assert len(one) == 0


def test_the_short_form_bounds_every_inner_product_from_above() -> None:
    z = photos()
    bounds = bounding(sparse(z), exact=10, share=0.7)
    assert bounds is not None
    short, _ = bounds
    assert 2 < short.shape[1] < 20
    assert (short @ short.T >= z @ z.T - 1e-5).all()
    assert (short @ short.T - z @ z.T).mean() < 0.3


@pytest.mark.parametrize("few", [0.0, 1.0])
def test_copies_are_the_same_whether_many_pairs_are_looked_at_or_few(few: float) -> None:
    z = photos(200)
    pictures = np.random.default_rng(0).integers(0, 256, (200, GRID * GRID), dtype=np.uint8)
    pictures[-5:] = pictures[:5]
    limits = PairLimits(similar=0.999, crop_likeness=0.99)
    scan = Scan(sparse(z), limits, thumbnails=pictures, tiling=Tiling(few=few))
    pairs, _, _ = joined(list(scanned(scan)))
    found = pairs.where(copies(pairs, limits))
    assert list(zip(found.one.tolist(), found.other.tolist(), strict=True)) == [(i, 195 + i) for i in range(5)]


def test_copies_need_both_the_vector_and_the_thumbnail() -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (4, GRID * GRID), dtype=np.uint8)
    pictures[1] = pictures[0]
    pictures[3] = pictures[2]
    z = np.zeros((4, 8), np.float32)
    z[:2, 0] = 1
    z[2, 1], z[3, 2] = 1, 1  # one thumbnail, vectors that have nothing in common
    limits = PairLimits(similar=0.9)
    pairs, _, _ = joined(list(scanned(Scan(sparse(unit(z)), limits, thumbnails=pictures))))
    found = pairs.where(copies(pairs, limits))
    assert list(zip(found.one.tolist(), found.other.tolist(), strict=True)) == [(0, 1)]


def test_a_collection_of_nothing_has_neither_pairs_nor_neighbours() -> None:
    z, none = sparse(photos(12)), sparse(photos(12)[:0])
    for one, other in ((z, none), (none, z), (none, None)):
        pairs, places, _ = joined(list(scanned(Scan(one, PairLimits(), others=other))))
        assert len(pairs) == 0
        assert len(places) == len(one.indptr) - 1
