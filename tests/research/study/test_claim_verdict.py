"""Verdicts: an interval over seeds decides, or leaves it open."""

from __future__ import annotations

import pytest
from scipy import stats

from research.study.claim_verdict import Verdict, decide, estimate
from research.study.plan import Claim
from research.study.result_files import Result


def results(**figures: list[float]) -> list[Result]:
    return [
        Result("s", variant, seed, {}, {}, {"score": value}, 1.0, "m", "c")
        for variant, values in figures.items()
        for seed, value in enumerate(values)
    ]


def decided(found: list[Result], *checks: dict[str, object]) -> Verdict:
    return decide(Claim.model_validate({"name": "n", "says": "s", "checks": checks}), found)


ABOVE = {"figure": "score", "of": "b", "than": "a", "at_least": 0.0}


def test_the_interval_of_paired_differences_is_students() -> None:
    found = decided(results(a=[0.1, 0.5, 0.3], b=[0.2, 0.65, 0.42]), ABOVE).checks[0].estimate
    assert found is not None
    expected = stats.ttest_1samp([0.1, 0.15, 0.12], 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(0.37 / 3)


@pytest.mark.parametrize(
    ("b", "status"),
    [
        ([0.2, 0.61, 0.4], "held"),
        ([0.0, 0.41, 0.2], "did not hold here"),
        ([0.3, 0.45, 0.3], "not decided"),
    ],
)
def test_a_claim_is_held_refuted_or_open(b: list[float], status: str) -> None:
    assert decided(results(a=[0.1, 0.5, 0.3], b=b), ABOVE).status == status


def test_one_seed_decides_nothing() -> None:
    assert decided(results(a=[0.1], b=[0.9]), ABOVE).status == "not decided"
    assert decided(results(a=[0.1, 0.2]), ABOVE).status == "not decided", "the other was not measured"


def test_only_shared_seeds_are_compared() -> None:
    found = decided(results(a=[0.1, 0.1, 5.0], b=[0.2, 0.21]), ABOVE)
    assert (found.status, found.seeds) == ("held", 2)


def test_a_bound_from_above_and_a_figure_alone() -> None:
    found = results(b=[0.95, 0.96, 0.97])
    assert decided(found, {"figure": "score", "of": "b", "at_least": 0.9}).status == "held"
    assert decided(found, {"figure": "score", "of": "b", "at_most": 0.9}).status == "did not hold here"


def test_several_checks_hold_in_part() -> None:
    found = results(b=[0.95, 0.96, 0.97])
    yes = {"figure": "score", "of": "b", "at_least": 0.9}
    no = {"figure": "score", "of": "b", "at_least": 0.99}
    unclear = {"figure": "score", "of": "b", "at_least": 0.96}
    assert decided(found, yes, yes).status == "held"
    assert decided(found, yes, no).status == "held in part"
    assert decided(found, no, no).status == "did not hold here"
    assert decided(found, yes, unclear).status == "not decided"
    assert decided(found, no, unclear).status == "did not hold here"
    assert decided(found, yes, no, unclear).status == "held in part"


def test_what_holds_by_construction_is_shown_and_does_not_count() -> None:
    found = results(a=[0.1, 0.5, 0.3], b=[0.2, 0.61, 0.4])
    trivial, no = {**ABOVE, "counts": False}, {**ABOVE, "at_least": 0.5}
    verdict = decided(found, trivial, no)
    assert [checked.status for checked in verdict.checks] == ["held", "did not hold here"]
    assert verdict.status == "did not hold here"
    assert str(verdict.checks[0]).endswith("held (by construction; not part of the verdict)")


def test_a_check_says_its_numbers() -> None:
    words = str(decided(results(a=[0.1, 0.5, 0.3], b=[0.2, 0.61, 0.4]), ABOVE).checks[0])
    assert "score of b against a: 0.4033 against 0.3, difference 0.1033 [" in words
    assert words.endswith("asked at least 0: held")


def test_equal_numbers_have_an_interval_of_no_width() -> None:
    assert (estimate([0.5, 0.5]).low, estimate([0.5, 0.5]).high) == (0.5, 0.5)
