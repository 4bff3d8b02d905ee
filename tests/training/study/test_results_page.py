"""docs/results.md says what the committed results say, and nothing else."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from nonneg_training.study.result_files import read_results
from nonneg_training.study.study import Study

ROOT = Path(__file__).parents[3]
STUDIES = sorted(path.name for path in (ROOT / "results").iterdir())


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_script", ROOT / "benchmarks" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_results_say(script: ModuleType) -> None:
    assert (ROOT / "docs" / "results.md").read_text() == script.page(), "run python benchmarks/results.py"


def test_every_study_with_results_is_on_the_page(script: ModuleType) -> None:
    assert set(STUDIES) <= set(script.STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_committed_results_are_sealed_and_of_the_study_as_it_is(name: str) -> None:
    study = Study(name, results=ROOT / "results")
    held = read_results(study.folder)
    assert held
    assert study.results() == held, "results of other settings: run the study again, or remove them"
    assert (study.folder / "table.md").read_text() == study.page(), (
        f"nonneg study show {name} > results/{name}/table.md"
    )
    assert not any(result.commit.endswith("+") for result in held), "made by code that is committed"


def test_every_recipe_says_its_result_or_that_it_has_none() -> None:
    for recipe in sorted((ROOT / "training" / "nonneg_training" / "recipes").glob("*.toml")):
        comment = " ".join(line for line in recipe.read_text().splitlines() if line.startswith("#"))
        assert re.search(r"Result: ", comment), recipe.name
