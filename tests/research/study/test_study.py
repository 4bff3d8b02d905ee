"""A study from its file to its verdict: run once, resumed, never mixed up, refused where it could mislead."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nonneg_core.errors import ConfigInvalid, DataInvalid, DigestMismatch, StorageFailed, TrainingStopped
from nonneg_core.files.user_cache import locked
from nonneg_training.setup import plugins
from research.study.__main__ import study as study_command
from research.study.plan import differing, names, read_plan
from research.study.result_files import read_result, same, this_commit, write_result
from research.study.study_runs import Study
from research.study.task import task

pytestmark = pytest.mark.nightly
PLAN = """
title = "Small"
question = "Does it run?"
setting = "digits"
task = "encoder"
seeds = [0, 1]

[base]
data = { source = "digits", limit = 200 }
model = { dimensions = 16, batch_norm = true }
loop = { epochs = 1, batch = 50 }

[variants.cl]
method = "cl"
model = { activation = "identity" }

[variants.ncl]
method = "ncl"
model = { activation = "relu" }

[measure]
ask = { source = "digits:test", limit = 100 }
lengths = [4]
selections = ["activation"]
codes = ["trained", "relu"]
keep = [3]
corruptions = true
shots = [2]
finetune = { ce = { model = { dimensions = 0 } }, nce = { method = "nce" } }
noise = [0.4]

[[claims]]
name = "sparse"
says = "NCL is sparser than CL"
checks = [{ figure = "structure.sparsity", of = "ncl", than = "cl", at_least = 0.0 }]

[plot]
figures = ["backbone.probe", "train.knn.by_epoch"]
"""

OWN = """
title = "An activation of one's own"
question = "Does it run?"
setting = "digits"
task = "encoder"
seeds = [0]

[base]
data = { source = "digits", limit = 200 }
model = { dimensions = 16 }
loop = { epochs = 1, batch = 50 }

[variants.relu]
model = { activation = "relu" }

[variants.squared]
model = { activation = "square" }

[[claims]]
name = "knn"
says = "It is measured"
checks = [{ figure = "train.knn", of = "squared", than = "relu", at_least = -1.0 }]
"""


def quick(text: str = PLAN) -> str:
    """The plan with what takes long to measure left out."""
    return re.sub(r"(codes|keep|corruptions|shots|finetune|noise) = .*\n", "", text)


def test_a_result_names_the_code_that_its_process_began_with(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        return subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True, text=True).stdout

    git("init")
    (tmp_path / "code.py").write_text("a = 1\n")
    git("add", ".")
    git("commit", "-m", "begin")
    begun = git("rev-parse", "--short=10", "HEAD").strip()
    assert this_commit(tmp_path) == begun
    (tmp_path / "code.py").write_text("a = 2\n")
    assert this_commit(tmp_path) == begun
    this_commit.cache_clear()
    assert this_commit(tmp_path) == f"{begun}+", "as another process sees it"
    this_commit.cache_clear()


def write(folder: Path, text: str = PLAN) -> str:
    path = folder / "small.toml"
    path.write_text(text)
    return str(path)


def said(*arguments: str | Path) -> Result:
    return CliRunner().invoke(study_command, [*map(str, arguments)], catch_exceptions=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plan, its results and its checkpoints."""
    folder = tmp_path_factory.mktemp("study")
    Study(write(folder), results=folder / "results", work=folder / "work").run(say=lambda _: None)
    return folder


def study(folder: Path) -> Study:
    return Study(str(folder / "small.toml"), results=folder / "results", work=folder / "work")


def test_a_study_of_digits_is_run_to_its_verdict(tmp_path: Path) -> None:
    answer = said("run", "digits", "--results", tmp_path / "results", "--work", tmp_path / "work")
    assert "NCL's dimensions are more consistent than CL's: held" in answer.output
    assert "4 of 4 runs" in answer.output
    found = sorted(path.name for path in (tmp_path / "results" / "digits").iterdir() if path.suffix)
    assert found == ["cl-0.json", "cl-1.json", "ncl-0.json", "ncl-1.json", "plot.png", "table.md"]
    page = (tmp_path / "results" / "digits" / "table.md").read_text()
    assert "| ncl | 2 | " in page
    assert " ± " in page


def test_a_result_says_all_that_it_depends_on(finished: Path) -> None:
    result = study(finished).results()[0]
    assert (result.variant, result.seed, result.study) == ("cl", 0, "small")
    assert result.settings["model"]["activation"] == "identity"
    assert "root" not in result.settings["data"]
    assert result.measure["ask"]["limit"] == 100
    assert result.seconds > 0
    assert "cores" in result.machine
    assert result.commit
    for figure in (
        "backbone.probe", "embedding.activation.4.p_at_10", "relu.live", "top.3.p_at_10",
        "structure.sepin.10", "floor.rotated.purity",
        "floor.untrained.consistency", "corrupted.sketch.backbone.probe", "corrupted.common.embedding.probe",
        "shots.2.backbone.probe", "noise.0.4.embedding.probe", "train.images_per_second", "finetune.nce",
    ):  # fmt: skip
        assert isinstance(result.figures[figure], float), figure
    assert isinstance(result.figures["train.knn.by_epoch"], list)
    assert result.figures["top.3.nnz"] == 3.0
    assert set(result.figures) <= study(finished).task.figures(result.measure)


def test_a_finished_run_is_not_repeated_and_a_missing_one_is_made(finished: Path) -> None:
    place = finished / "results" / "small" / "ncl-1.json"
    before, kept = place.read_text(), place.with_name("cl-0.json").stat().st_mtime_ns
    lines: list[str] = []
    study(finished).run(say=lines.append)
    assert lines == []
    place.unlink()
    study(finished).run(say=lines.append)
    assert lines == ["small: ncl, seed 1 (1 of 1)"]
    assert place.with_name("cl-0.json").stat().st_mtime_ns == kept
    again = json.loads(place.read_text())
    assert again["figures"] == json.loads(before)["figures"], "the same settings and seed give the same figures"


WORLD = """
title = "Small"
question = "Does it run?"
setting = "a world"
task = "theory"
seeds = [0]
[variants.a]
views = 12
classes = 3
steps = 10
restarts = 1
[plot]
figures = ["residual.ncl"]
"""


def test_a_report_that_a_killed_run_did_not_write_is_written_when_all_results_are_there(tmp_path: Path) -> None:
    write(tmp_path, WORLD)
    study(tmp_path).run(say=lambda _: None)
    place = tmp_path / "results" / "small"
    there, page = sorted(place.iterdir()), (place / "table.md").read_text()
    (place / "table.md").unlink()
    (place / "plot.png").unlink()
    (place / ".plot.png.12345678.unfinished").touch()
    study(tmp_path).run(say=lambda _: None)
    assert sorted(place.iterdir()) == there
    assert (place / "table.md").read_text() == page


def test_a_study_that_is_killed_goes_on(tmp_path: Path) -> None:
    name = write(tmp_path, quick())
    command = [sys.executable, "-u", "-m", "research.study", "run", name]
    command += ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "(2 of 4)" in line:  # the first run is put away, the second has begun
                process.kill()
                break
    results = tmp_path / "results" / "small"
    first = results / "cl-0.json"
    kept = first.read_bytes()
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "small: ncl, seed 0 (1 of 3)" in said
    assert "4 of 4 runs" in said
    assert first.read_bytes() == kept
    found = sorted(path.name for path in results.iterdir() if path.suffix)
    assert found == ["cl-0.json", "cl-1.json", "ncl-0.json", "ncl-1.json", "plot.png", "table.md"]
    page = (results / "table.md").read_text()
    assert "| ncl | 2 | " in page
    assert " ± " in page


def test_a_budget_leaves_the_rest_for_the_next_time(tmp_path: Path) -> None:
    wanted = Study(write(tmp_path), results=tmp_path / "results", work=tmp_path / "work")
    lines: list[str] = []
    verdicts = wanted.run(budget=1e-9, say=lines.append)
    assert "4 runs wait; the same command goes on with them" in lines[-1]
    assert [verdict.status for verdict in verdicts] == ["not decided"]
    assert wanted.results() == []


def test_a_result_of_other_settings_is_neither_counted_nor_shown(finished: Path, tmp_path: Path) -> None:
    changed = tmp_path / "small.toml"
    changed.write_text(PLAN.replace("epochs = 1", "epochs = 2"))
    other = Study(str(changed), results=finished / "results", work=tmp_path / "work")
    assert other.results() == []
    assert len(other.strangers()) == len(other.missing()) == 4
    assert "| cl | 0 |" in other.page()
    answer = CliRunner().invoke(study_command, ["check", str(changed), "--results", str(finished / "results")])
    assert "0 of 4 runs; cl-0.json is of other settings" in answer.output


def test_results_are_shown_without_the_data_they_were_measured_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NONNEG_DATA", raising=False)
    assert "0 of 12 runs" in said("show", "cifar10", "--results", tmp_path).output
    assert "cifar10 needs to know where it lies" in CliRunner().invoke(study_command, ["check", "cifar10"]).output


def test_results_that_differ_in_what_the_file_does_not_name_are_refused(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "small"
    for variant, seed, decay in (("cl", 0, 0.0), ("cl", 1, 0.1), ("ncl", 0, 0.1)):
        result = read_result(finished / "results" / "small" / f"{variant}-{seed}.json")
        settings = {**result.settings, "optimiser": {**result.settings["optimiser"], "weight_decay": decay}}
        write_result(folder, replace(result, settings=settings))
    mixed = Study(str(finished / "small.toml"), results=tmp_path / "results")
    with pytest.raises(DataInvalid, match=r"the runs of cl differ in optimiser\.weight_decay"):
        mixed.page()
    (folder / "cl-1.json").unlink()
    with pytest.raises(ConfigInvalid, match=r"cl and ncl differ in optimiser\.weight_decay"):
        mixed.page()


def test_a_setting_that_came_later_counts_as_its_default() -> None:
    recorded, defaults = {"lr": 0.1, "gone": 3}, {"lr": 0.5, "new": "off"}
    assert same(recorded, {"lr": 0.1, "new": "off"}, defaults)
    assert not same(recorded, {"lr": 0.1, "new": "on"}, defaults)
    assert not same(recorded, {"lr": 0.5, "new": "off"}, defaults)
    assert differing({"a": {"lr": 1, "gone": 3}}, {"a": {"lr": 1, "new": "off"}}, {"a": {"new": "off"}}) == set()
    assert differing({"a": {"lr": 1}}, {"a": {"lr": 2, "new": "on"}}, {"a": {"new": "off"}}) == {"a.lr", "a.new"}


def test_a_result_that_measured_more_is_another_result(finished: Path, tmp_path: Path) -> None:
    less = tmp_path / "small.toml"
    less.write_text(re.sub(r"finetune = .*\n", "", PLAN))
    other = Study(str(less), results=finished / "results", work=tmp_path / "work")
    assert other.results() == []
    assert len(other.missing()) == 4


def test_an_edited_result_is_refused(finished: Path, tmp_path: Path) -> None:
    text = (finished / "results" / "small" / "cl-0.json").read_text()
    record = json.loads(text)
    record["figures"]["backbone.probe"] = 0.99
    (tmp_path / "edited.json").write_text(json.dumps(record))
    with pytest.raises(DigestMismatch, match=r"edited\.json was edited"):
        read_result(tmp_path / "edited.json")
    (tmp_path / "half.json").write_text(text[:100])
    with pytest.raises(DigestMismatch, match="is not a result of a study"):
        read_result(tmp_path / "half.json")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epochs = 1", "epochs = 1, epoch = 2", r"loop\.epoch=2: not a setting"),
        ('title = "Small"', 'title = "Small"\ncolour = 1', "colour: not a setting"),
        ("shots", "shotz", r"measure\.shotz=.*: not a setting: known: ask, teach"),
        ('task = "encoder"', 'task = "magic"', "task=magic is not known: choose of encoder"),
        ('of = "ncl"', 'of = "mcl"', "compares mcl, which is not a variant"),
        (", at_least = 0.0", "", "needs one bound"),
        (", at_least = 0.0", ", at_least = 0.0, counts = false", "has no check that counts"),
        ('name = "sparse"', 'name = "sparse"\nof_paper = "sparse"', r"claims\.0\.of_paper"),
        ('"digits", limit', '"cifar10", limit', "cifar10 needs to know where it lies"),
        ('codes = ["trained", "relu"]', 'codes = ["best"]', "codes=best is not known"),
        ('selections = ["activation"]', 'selections = ["best"]', "selections=best is not known: choose of prefix"),
        ("lengths = [4]", "lengths = [-3]", r"measure\.lengths\.0=-3: .*greater than 0"),
        ("lengths = [4]", "lengths = [17]", r"measure\.lengths=17 exceeds the encoder's 16 dimensions"),
        ("noise = [0.4]", "noise = [4]", r"measure\.noise\.0=4: .*less than or equal to 1"),
        ("dimensions = 0 }", "dimensions = 0 }, loop = { epoch = 2 }", r"finetune\.ce: loop\.epoch=2: not a setting"),
        (
            'method = "nce"',
            'method = "nce", model = { activation = "identity" }',
            "nce does not go with activation=iden",
        ),
        ('"digits:test"', '"digits:val"', "digits has no images called val"),
        ("shots = [2]", "shots = [2]\nfactors = true", "does not know its factors"),
        (
            '"structure.sparsity"',
            '"structure.sparsety"',
            "claim sparse names structure.sparsety.*mean structure.sparsity",
        ),
        ('"backbone.probe"', '"backbone.prone"', "the plot names backbone.prone, which no result can have"),
        ("batch_norm = true", "hidden = [8]", None),
        ('activation = "relu" }', 'activation = "relu" }\nloop = { epochs = 1 }', None),
    ],
)
def test_what_a_study_cannot_be_is_refused_by_name(
    tmp_path: Path, old: str, new: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NONNEG_DATA", raising=False)
    name = write(tmp_path, PLAN.replace(old, new))
    if message is None:
        assert len(Study(name, results=tmp_path).grid()) == 4
        return
    with pytest.raises(ConfigInvalid, match=message):
        Study(name, results=tmp_path).grid()


@pytest.mark.parametrize(
    "measure", ['ask = { source = "nowhere/x" }', 'transfer = [{ source = "digits" }, { source = "no" }]']
)
def test_images_to_measure_on_are_opened_before_the_first_run(tmp_path: Path, measure: str) -> None:
    text = re.sub(r"\nask = .*", "", PLAN).replace("[measure]", f"[measure]\n{measure}")
    with pytest.raises(DataInvalid, match=r"no(where/x)? does not exist"):
        Study(write(tmp_path, text), results=tmp_path).run(say=print)


def test_a_variant_that_stops_is_named_and_the_others_are_made(tmp_path: Path) -> None:
    text = PLAN.replace("seeds = [0, 1]", "seeds = [0]").replace("corruptions = true", "")
    text = re.sub(r"finetune = .*\n", "", text).replace("batch = 50 }", "batch = 50 }\nhealth = { dead_share = 0.0 }")
    text = text.replace('activation = "relu" }', 'activation = "relu", batch_norm = false }\noptimiser = { lr = 50.0 }')
    name = write(tmp_path, text)
    given = ["run", name, "--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    answer = CliRunner().invoke(study_command, given)
    assert answer.exit_code == 1
    assert "small: ncl, seed 0 (step " in answer.output
    assert "1 of 2 runs" in answer.output
    assert isinstance(answer.exception, TrainingStopped)
    assert [path.name for path in (tmp_path / "results" / "small").glob("*.json")] == ["cl-0.json"]


def test_two_processes_do_not_make_the_same_results(tmp_path: Path) -> None:
    wanted = Study(write(tmp_path), results=tmp_path / "results", work=tmp_path / "work")
    wanted.folder.mkdir(parents=True)
    with locked(wanted.folder / ".lock") as held:
        assert held
        with pytest.raises(StorageFailed, match=r"another process makes the results in .*small: wait for it"):
            wanted.run(say=print)


def test_a_file_under_another_runs_name_is_refused(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "small"
    shutil.copytree(finished / "results" / "small", folder)
    shutil.copy(folder / "cl-0.json", folder / "cl-2.json")
    with pytest.raises(DataInvalid, match=r"cl-2\.json is the result of cl, seed 0: remove it"):
        Study(str(finished / "small.toml"), results=tmp_path / "results").page()


def test_check_ends_with_1_where_results_are_missing_or_of_other_settings(finished: Path, tmp_path: Path) -> None:
    place, runner = tmp_path / "results" / "small", CliRunner()
    shutil.copytree(finished / "results" / "small", place)
    command = ["check", str(finished / "small.toml"), "--results", str(tmp_path / "results")]
    assert runner.invoke(study_command, command).exit_code == 0
    (place / "cl-0.json").unlink()
    missing = runner.invoke(study_command, command)
    assert (missing.exit_code, "3 of 4 runs" in missing.output) == (1, True)
    result = read_result(finished / "results" / "small" / "cl-0.json")
    write_result(place, replace(result, settings={**result.settings, "method": "ncl"}))
    other = runner.invoke(study_command, command)
    assert (other.exit_code, "cl-0.json is of other settings" in other.output) == (1, True)


def test_variants_that_differ_in_more_than_they_name_are_refused(tmp_path: Path) -> None:
    silent = PLAN.replace('\nmodel = { activation = "identity" }', "").replace('\nmodel = { activation = "relu" }', "")
    with pytest.raises(ConfigInvalid, match=r"differ in model\.activation \('identity', 'relu'\), which neither"):
        Study(write(tmp_path, silent), results=tmp_path).grid()


def test_a_study_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigInvalid, match=r"study cifar11 does not exist: choose of .*digits"):
        read_plan("cifar11")


@pytest.mark.parametrize("name", names())
def test_every_study_that_comes_along_can_be_read(name: str) -> None:
    _, plan = read_plan(name)
    task(plan.task).check_measure(plan.measure)
    assert plan.claims, "a study without a claim decides nothing"
    for claim in plan.claims:
        assert claim.checks


def test_the_list_names_them_and_show_what_one_asks() -> None:
    assert "digits" in said("list").output
    assert "0 of 4 runs" in said("show", "digits", "--results", "nowhere").output
    assert "digits: 0 of 4 runs" in said("check", "digits", "--results", "nowhere").output


def test_a_study_compares_an_activation_of_ones_own_with_one_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_registered", {})
    mine = tmp_path / "mine.py"
    mine.write_text("from nonneg_training import plugins\n\nplugins.activation('square')(lambda z: z.relu() ** 2)\n")
    plan = tmp_path / "own.toml"
    plan.write_text(OWN)
    with pytest.raises(ConfigInvalid, match=r"model.activation='square' is unknown.*--plugin"):
        said("run", plan, "--results", tmp_path / "results", "--work", tmp_path / "work")
    answer = said("run", plan, "--plugin", mine, "--results", tmp_path / "results", "--work", tmp_path / "work")
    assert "2 of 2 runs" in answer.output
    (line,) = read_result(tmp_path / "results" / "own" / "squared-0.json").settings["plugins"]
    assert line.startswith("activation square of mine.py, sha256 ")
