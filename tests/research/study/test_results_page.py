"""docs/results.md says what the committed results say, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from research.study import results_page
from research.study.plan import PaperClaim
from research.study.result_files import read_results
from research.study.study_runs import Study

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "research" / "results"
STUDIES = sorted(path.name for path in RESULTS.iterdir())


@pytest.mark.slow
def test_the_page_is_what_the_results_say() -> None:
    fix = "run python -m research.study.results_page"
    assert results_page.PAGE.read_text() == results_page.page(), fix
    assert results_page.BY_STUDY.read_text() == results_page.by_study(), fix


def test_the_page_has_a_row_for_each_of_the_papers_claims_and_is_read_in_five_minutes() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(get_args(PaperClaim)) == 11
    assert len(re.sub(r"\]\(\S+\)|\|", " ", text).split()) < 1500


@pytest.mark.slow
def test_the_largest_study_decides_whatever_it_says() -> None:
    longer, quick = (Study(name, results=RESULTS) for name in ("longer", "quick"))
    assert results_page.size(longer) == 6 * results_page.size(quick), "of the same network, 36 epochs in place of 6"
    cifar10 = Study("cifar10", results=RESULTS)
    assert results_page.size(cifar10) > results_page.size(longer), (
        "a larger network counts for more than more epochs of a small one"
    )
    row = next(line for line in results_page.page().splitlines() if line.startswith("| At least nine tenths"))
    assert "(../research/results-by-study.md#cifar10): CIFAR-10, 8,000 images, 6 epochs, slim-resnet, 3 seeds" in row
    assert "**did not hold here**" in row
    assert "Smaller studies: [longer](../research/results-by-study.md#longer) held" in row


def test_a_verdict_that_came_with_more_seeds_says_what_three_had_said() -> None:
    line = next(
        line
        for line in results_page.by_study().splitlines()
        if line.startswith("- NCL's dimensions are less corr") and "held" in line
    )
    assert (
        "**held**; with the first 3 seeds alone: not decided (structure.correlation of ncl against cl: -0.1826" in line
    )


def test_every_study_with_results_is_on_the_page() -> None:
    assert set(STUDIES) <= set(results_page.STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_committed_results_are_sealed_and_of_the_study_as_it_is(name: str) -> None:
    study = Study(name, results=RESULTS)
    held = read_results(study.folder)
    assert held
    assert study.results() == held, "results of other settings: run the study again, or remove them"
    assert (study.folder / "table.md").read_text() == study.page(), (
        f"python -m research.study show {name} > research/results/{name}/table.md"
    )
    assert not any(result.commit.endswith("+") for result in held), "made by code that is committed"


def test_every_recipe_says_its_result_or_that_it_has_none() -> None:
    for recipe in sorted((ROOT / "training" / "nonneg_training" / "recipes").glob("*.toml")):
        comment = " ".join(line for line in recipe.read_text().splitlines() if line.startswith("#"))
        assert re.search(r"Result: ", comment), recipe.name
