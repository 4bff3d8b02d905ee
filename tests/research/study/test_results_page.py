"""docs/results.md says what the committed results say, and nothing else."""

from __future__ import annotations

import re
import shutil
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from research.study import numbers_page, results_page
from research.study.plan import PaperClaim, merged, read_plan
from research.study.result_files import Result, read_results, write_result
from research.study.study_runs import Study

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "research" / "results"
STUDIES = sorted(path.name for path in RESULTS.iterdir())


@pytest.mark.slow
def test_the_page_is_what_the_results_say() -> None:
    fix = "run python -m research.study.results_page"
    assert results_page.PAGE.read_text() == results_page.page(), fix
    assert results_page.BY_STUDY.read_text() == results_page.by_study(), fix
    assert numbers_page.PAGE.read_text() == numbers_page.numbers_page(RESULTS), fix


def test_the_page_has_a_row_for_each_of_the_papers_claims_and_is_read_in_five_minutes() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    claims = text.partition("## How to read it")[0]
    rows = [line for line in claims.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(get_args(PaperClaim)) == 11
    assert len(re.sub(r"\]\(\S+\)|\|", " ", text).split()) < 1500
    assert "| claim | paper | ours | verdict |" in text


def test_the_first_complete_study_that_says_so_decides(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    for name in ("features", "features-growth"):
        shutil.rmtree(tmp_path / "results" / name, ignore_errors=True)

    def row() -> str:
        lines = results_page.page(tmp_path / "results").splitlines()
        return next(line for line in lines if line.startswith("| At least nine tenths"))

    assert "(../research/results-by-study.md#cifar10)" in row()
    assert "An earlier study: `features` has not run to its end" in row()
    study = Study("features", results=tmp_path / "results")
    for place, (variant, seed) in enumerate(product(study.plan.variants, study.plan.seeds)):
        figures = {"structure.sparsity": 0.95 + seed / 1000 if variant == "ncl" else 0.0}
        stated = merged(study.plan.base, study.plan.variants[variant])
        write_result(study.folder, Result("features", variant, seed, stated, study.measure, figures, 1.0, "m", "c"))
        if place in (0, 18, 19):  # the page takes a second each time
            assert ("features has not run" in row().replace("`", "")) == (place < 19), (
                "all of its runs have to be there"
            )
    assert "| 0.963 [0.961, 0.965] | **held** ([features](../research/results-by-study.md#features))" in row()
    assert "Beyond the paper: bn did not hold here" in row()
    assert "Elsewhere:" in row()
    assert "[cifar10](../research/results-by-study.md#cifar10) did not hold here" in row()


def test_each_figure_of_the_page_of_numbers_is_one_that_its_study_measures() -> None:
    for figure in numbers_page.FIGURES:
        study = Study(figure.study)
        known = study.task.figures(study.measure)
        for variant, name in (*figure.theirs, *figure.twin):
            assert name in known, (figure.name, name)
            assert variant in study.plan.variants, (figure.name, variant)


def test_a_claim_of_the_paper_is_decided_by_a_study_that_measures_it() -> None:
    plans = [read_plan(name)[1] for name in results_page.STUDIES]
    for key in get_args(PaperClaim):
        deciding = [plan for plan in plans if key in plan.decides]
        assert deciding, key
        for plan in deciding:
            assert any(claim.of_paper == key and not claim.beyond for claim in plan.claims), (plan.title, key)


def test_a_verdict_that_came_with_more_seeds_says_what_three_had_said() -> None:
    said = "**held**; with the first 3 seeds alone: not decided (structure.correlation of ncl against cl: -0.1826"
    lines = results_page.by_study().splitlines()
    assert any(line.startswith("- NCL's dimensions are less corr") and said in line for line in lines)


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
