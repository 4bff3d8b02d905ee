"""A study, run: what is missing is trained and measured, what is there is never repeated nor mixed up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid, DataInvalid, StorageFailed, TrainingStopped
from nonneg_core.files.atomic import storage_error
from nonneg_core.files.user_cache import cache_folder, locked
from research.study import result_files
from research.study.claim_verdict import Verdict, decide
from research.study.plan import Record, check_figures, differing, flat, merged, read_plan
from research.study.result_files import Result
from research.study.study_report import PAGE, page, write_report
from research.study.task import Task, task

Say = Callable[[str], None]
LOCK = ".lock"  # held by the process that makes results here


@dataclass(frozen=True)
class PlannedRun:
    """One run of the grid."""

    variant: str
    seed: int
    settings: Record


class Study:
    """A study by its name or file; its results lie in `results`/NAME, checkpoints in `work`."""

    def __init__(
        self, name: str, *, results: Path = Path("research/results"), work: Path | None = None, root: Path | None = None
    ) -> None:
        self.name, self.plan = read_plan(name)
        self.folder = results / self.name
        self.work = work or cache_folder("studies")
        self.root = root
        self.task: Task = task(self.plan.task)
        self.measure = self.task.check_measure(self.plan.measure)
        check_figures(self.name, self.plan, self.task.figures(self.measure))

    def grid(self) -> list[PlannedRun]:
        """List every run: all variants of the first seed, then of the next.

        Raises where variants differ in what they do not name, for then a comparison would say nothing.
        """
        settled = {name: self._settled(name) for name in self.plan.variants}
        self._check_alone(settled)
        for record in settled.values():
            self.task.check_data(record, self.measure, self.root)
        return [PlannedRun(name, seed, record) for seed in self.plan.seeds for name, record in settled.items()]

    def results(self) -> list[Result]:
        """Return the results of what the study's file states; the data need not be there.

        Raises where two of one variant, or two variants, differ in what the file does not name.
        """
        outcomes = [r for r in result_files.read_results(self.folder) if self._states(r)]
        settings: dict[str, Record] = {}
        for result in outcomes:
            before = settings.setdefault(result.variant, result.settings)
            other = differing(before, result.settings, self.task.defaults()[0])
            if other:
                raise DataInvalid(
                    f"{self.folder}: the runs of {result.variant} differ in {min(other)}",
                    fix="remove the older ones; `python -m research.study run` makes them again",
                    field=min(other),
                )
        self._check_alone(settings)
        return outcomes

    def strangers(self) -> list[Result]:
        """Return results in the folder that come from other settings: they are shown nowhere."""
        return self._sorted()[1]

    def missing(self) -> list[PlannedRun]:
        """Return the runs without a result."""
        done = {(r.variant, r.seed) for r in self._sorted()[0]}
        return [run for run in self.grid() if (run.variant, run.seed) not in done]

    def run(self, *, budget: float | None = None, say: Say = print) -> list[Verdict]:
        """Make what is missing, within `budget` hours; a run is not begun that would not fit.

        Raises at the end where runs stopped that could not come to anything: the others are made all the same.
        """
        result_files.this_commit()  # of the code that begins, not of what the clone holds at the end
        with self._alone():
            stopped = self._make(self.missing(), budget, say)
            if self._report_is_due():  # a run that was killed made the last result, and no report
                self.report()
        if stopped:
            raise TrainingStopped(
                f"{len(stopped)} of {len(self.grid())} runs stopped: {'; '.join(stopped)}",
                fix="change the settings of these variants; the other results are kept",
            )
        return self.verdicts()

    def _make(self, waiting: list[PlannedRun], budget: float | None, say: Say) -> list[str]:
        """Make these runs; return those that stopped, and why."""
        began, longest, stopped = time.monotonic(), 0.0, list[str]()
        for number, planned in enumerate(waiting):
            spent = time.monotonic() - began
            if budget is not None and (spent + longest) / 3600 > budget:
                say(f"{self.name}: {len(waiting) - number} runs wait; the same command goes on with them")
                break
            say(f"{self.name}: {planned.variant}, seed {planned.seed} ({number + 1} of {len(waiting)})")
            try:
                result = self._made(planned)
            except TrainingStopped as error:
                stopped.append(f"{planned.variant}, seed {planned.seed} ({error.message})")
                say(f"{self.name}: {stopped[-1]} stopped")
                continue
            longest = max(longest, result.seconds)
            result_files.write_result(self.folder, result)
            self.report()
        return stopped

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse to work where another process makes the same results."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(self.folder, error) from error
        with locked(self.folder / LOCK, wait=False) as lock:
            if not lock:
                raise StorageFailed(
                    f"another process makes the results in {self.folder}",
                    fix="wait for it, or give another folder with --results",
                    value=str(self.folder),
                )
            yield

    def _report_is_due(self) -> bool:
        try:
            return (self.folder / PAGE).read_text(encoding="utf-8") != self.page()
        except OSError:
            return bool(self.results())

    def report(self) -> None:
        """Write plot and table."""
        write_report(self.folder, self.name, self.plan, self.results())

    def page(self) -> str:
        """Return the table and the verdicts, in Markdown."""
        return page(self.name, self.plan, self.results())

    def verdicts(self) -> list[Verdict]:
        """Return every claim, decided or not."""
        outcomes = self.results()
        return [decide(claim, outcomes) for claim in self.plan.claims]

    def _states(self, result: Result) -> bool:
        """Return whether a result was made by what the file states, its defaults aside."""
        if result.variant not in self.plan.variants or result.seed not in self.plan.seeds:
            return False
        stated = flat(merged(self.plan.base, self.plan.variants[result.variant]))
        recorded = flat(result.settings)
        _, measure = self.task.defaults()
        as_stated = all(recorded.get(name) == value for name, value in stated.items())
        return as_stated and result_files.same(result.measure, self.measure, measure)

    def _sorted(self) -> tuple[list[Result], list[Result]]:
        planned = {(run.variant, run.seed): run for run in self.grid()}
        settings, measure = self.task.defaults()
        ours: list[Result] = []
        others: list[Result] = []
        for result in result_files.read_results(self.folder):
            run = planned.get((result.variant, result.seed))
            fits = (
                run is not None
                and result_files.same(flat(result.settings), flat(run.settings), flat(settings))
                and result_files.same(result.measure, self.measure, measure)
            )
            (ours if fits else others).append(result)
        return ours, others

    def _settled(self, variant: str) -> Record:
        record = merged(self.plan.base, self.plan.variants[variant])
        return self.task.settle(record, self.root)

    def _check_alone(self, settled: dict[str, Record]) -> None:
        """Refuse two variants that differ in more than what one of them names."""
        named = {name: set(flat(changes)) for name, changes in self.plan.variants.items()}
        first, defaults = next(iter(settled), ""), self.task.defaults()[0]
        for name, record in settled.items():
            other = differing(settled[first], record, defaults) - named[first] - named[name] - {"plugins"}
            if other:
                setting = min(other)
                values = [flat(settled[side]).get(setting) for side in (first, name)]
                raise ConfigInvalid(
                    f"the variants {first} and {name} differ in {setting} ({values[0]!r}, {values[1]!r}), "
                    "which neither names",
                    fix=f"set {setting} in [base], or name it in a variant",
                    field=setting,
                )

    def _made(self, planned: PlannedRun) -> Result:
        began = time.perf_counter()
        figures = self.task.run(planned.settings, self.measure, planned.seed, self.work, self.root)
        return Result(
            study=self.name,
            variant=planned.variant,
            seed=planned.seed,
            settings=planned.settings,
            measure=self.measure,
            figures={name: _rounded(value) for name, value in sorted(figures.items())},
            seconds=round(time.perf_counter() - began, 1),
            machine=result_files.this_machine(),
            commit=result_files.this_commit(),
        )


def _rounded(value: Any) -> Any:
    """Round to six digits: enough for every table, and the same on each reading."""
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return float(f"{float(value):.6g}") if value is not None else None
