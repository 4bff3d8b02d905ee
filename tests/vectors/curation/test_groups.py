"""Groups without chains, against the rule applied one photo at a time."""

from __future__ import annotations

import numpy as np

from nonneg_vectors.curation.duplicates import stars


def test_a_chain_of_look_alikes_is_not_a_group() -> None:
    one, other = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4])  # 0-1-2-3-4
    found = stars(one, other, [0, 1, 2, 3, 4])
    assert [(star.keep, star.members) for star in found] == [(0, (1,)), (2, (3,))]


def test_the_best_photo_is_kept_and_every_member_is_paired_with_it() -> None:
    one, other = np.array([0, 0, 1]), np.array([1, 2, 2])
    (star,) = stars(one, other, [2, 0, 1])
    assert star.keep == 2
    assert star.members == (0, 1)
    assert star.pairs == (1, 2)


def test_groups_are_those_of_the_rule_followed_slowly() -> None:
    rng = np.random.default_rng(4)
    pairs = sorted({(min(i, j), max(i, j)) for i, j in rng.integers(0, 60, (150, 2)).tolist() if i != j})
    order = rng.permutation(60).tolist()
    linked = set(pairs) | {(j, i) for i, j in pairs}
    taken: set[int] = set()
    expected = {}
    for keep in order:
        members = [j for j in range(60) if (keep, j) in linked and j not in taken]
        if keep in taken or not members:
            continue
        taken |= {keep, *members}
        expected[keep] = tuple(members)
    found = stars(np.array([i for i, _ in pairs]), np.array([j for _, j in pairs]), order)
    assert {star.keep: star.members for star in found} == expected
    for star in found:
        assert [set(pairs[p]) for p in star.pairs] == [{star.keep, member} for member in star.members]
