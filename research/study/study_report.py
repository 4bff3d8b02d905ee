"""What a study shows: a table of means and deviations, the claims with their verdicts, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nonneg_core.files.atomic import atomic_write
from nonneg_core.terminal.tables import figure
from research.study.claim_verdict import by_seed, decide, estimate, short
from research.study.plan import Plot, StudyPlan, flat
from research.study.result_files import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE, PICTURE = "table.md", "plot.png"


def write_report(folder: Path, name: str, plan: StudyPlan, results: Sequence[Result]) -> None:
    """Write plot.png and then table.md, from the results: where the table is of these, the plot is, too."""
    if plan.plot is not None and results:
        draw(folder / PICTURE, plan, plan.plot, results)
    with atomic_write(folder / PAGE) as path:
        path.write_text(page(name, plan, results), encoding="utf-8")


def page(name: str, plan: StudyPlan, results: Sequence[Result]) -> str:
    """Return the study in Markdown."""
    planned = len(plan.seeds) * len(plan.variants)
    lines = [f"# {plan.title}", "", plan.question, "", f"Setting: {plan.setting}", ""]
    lines += [f"{len(results)} of {planned} runs of `python -m research.study run {name}`{_where(results)}", ""]
    columns, rows = table(plan, results)
    lines += [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    for verdict in (decide(claim, results) for claim in plan.claims):
        lines += ["", f"**{verdict.claim.says}: {verdict.status}** ({verdict.seeds} seeds)", ""]
        lines += [f"- {checked}" for checked in verdict.checks]
    return "\n".join(lines) + "\n"


def table(plan: StudyPlan, results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: a row a variant, mean ± deviation over its seeds."""
    figures = plan.table or tuple(sorted({name for r in results for name in r.figures}))[:8]
    rows = []
    for variant in plan.variants:
        cells = [list(by_seed(results, variant, figure).values()) for figure in figures]
        seeds = len({r.seed for r in results if r.variant == variant})
        rows.append([variant, str(seeds), *(_cell(values) for values in cells)])
    return ["", "seeds", *figures], rows


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "-"
    summary = estimate(values)
    return short(summary.mean) if summary.seeds < 2 else f"{short(summary.mean)} ± {short(summary.deviation)}"


def _where(results: Sequence[Result]) -> str:
    if not results:
        return "."
    machines, commits = (sorted({getattr(r, what) for r in results}) for what in ("machine", "commit"))
    hours = sum(r.seconds for r in results) / 3600
    several = " (several machines)" if len(machines) > 1 else ""
    return f": {hours:.2f} hours on {'; '.join(machines)}{several}, at {', '.join(commits)}."


def draw(path: Path, plan: StudyPlan, plot: Plot, results: Sequence[Result]) -> None:
    """Draw the study's picture."""
    drawn = figure(figsize=(4.2 * len(plot.figures), 3.4))
    if plot.title:
        drawn.suptitle(plot.title)
    for axes, panel in zip(np.atleast_1d(drawn.subplots(1, len(plot.figures))), plot.figures, strict=True):
        name = panel if isinstance(panel, str) else ""
        if plot.over is not None:
            _grown(axes, plot, panel, results)
        elif not isinstance(panel, str):
            _grouped(axes, plan, panel, results)
        elif any(isinstance(r.figures.get(name), list) for r in results):
            _lines(axes, plan, name, results)
        else:
            _bars(axes, plan, name, results)
        axes.set_title(name or " and ".join(panel), fontsize=10 if name else 8)
        if plot.label:
            axes.set_xlabel(plot.label)
    with atomic_write(path) as temporary:
        drawn.savefig(temporary, format="png", dpi=90, metadata={"Software": None})


def _bars(axes: Axes, plan: StudyPlan, name: str, results: Sequence[Result]) -> None:
    for place, variant in enumerate(plan.variants):
        values = list(by_seed(results, variant, name).values())
        if values:
            axes.bar(place, float(np.mean(values)), color=f"C{place}", alpha=0.5)
            axes.plot([place] * len(values), values, "k.", markersize=4)
    axes.set_xticks(range(len(plan.variants)), labels=list(plan.variants), rotation=30, ha="right", fontsize=8)


def _grouped(axes: Axes, plan: StudyPlan, names: Sequence[str], results: Sequence[Result]) -> None:
    """Draw several figures of each variant side by side; where they differ by more than a thousand, on a log scale."""
    width, heights = 0.8 / len(names), []
    for place, name in enumerate(names):
        for column, variant in enumerate(plan.variants):
            values = list(by_seed(results, variant, name).values())
            if values:
                heights.append(float(np.mean(values)))
                left = column + (place - (len(names) - 1) / 2) * width
                axes.bar(left, heights[-1], width, color=f"C{place}", label=None if column else name)
    if heights and min(heights) > 0 and max(heights) > 1000 * min(heights):
        axes.set_yscale("log")
    axes.set_xticks(range(len(plan.variants)), labels=list(plan.variants), rotation=30, ha="right", fontsize=8)
    axes.legend(fontsize=8)


def _grown(axes: Axes, plot: Plot, panel: str | Sequence[str], results: Sequence[Result]) -> None:
    """Draw figures over a setting: a line for each kind of variant, means and what each seed says."""
    assert plot.over is not None
    kinds = list(dict.fromkeys(r.variant.partition("-")[0] for r in results))
    for style, name in zip("-:", [panel] if isinstance(panel, str) else panel, strict=False):
        for place, kind in enumerate(kinds):
            points: dict[float, list[float]] = {}
            for r in results:
                value = r.figures.get(name)
                if r.variant.partition("-")[0] == kind and isinstance(value, (int, float)):
                    points.setdefault(float(flat(r.settings)[plot.over]), []).append(value)
            steps = sorted(points)
            axes.plot(steps, [np.mean(points[x]) for x in steps], f"C{place}{style}", label=f"{kind} {name}")
            for x in steps:
                axes.plot([x] * len(points[x]), points[x], f"C{place}.", markersize=3)
        if name in plot.paper:
            axes.plot([axes.get_xlim()[1]], [plot.paper[name]], "k*", label="the paper")
    axes.set_xscale("log")
    axes.legend(fontsize=6)


def _lines(axes: Axes, plan: StudyPlan, name: str, results: Sequence[Result]) -> None:
    for place, variant in enumerate(plan.variants):
        series: list[Any] = [r.figures[name] for r in results if r.variant == variant and r.figures.get(name)]
        length = min((len(values) for values in series), default=0)
        if length:
            mean = np.mean([values[:length] for values in series], axis=0)
            for values in series:
                axes.plot(range(1, length + 1), values[:length], color=f"C{place}", alpha=0.25, linewidth=0.8)
            axes.plot(range(1, length + 1), mean, color=f"C{place}", marker=".", label=variant)
    axes.legend(fontsize=8)
