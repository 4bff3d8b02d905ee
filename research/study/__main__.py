"""`python -m research.study`: list, show, run and check studies."""

from __future__ import annotations

from pathlib import Path

import click

from nonneg_cli.table import run_command
from nonneg_core.errors import NonnegError, TrainingStopped
from nonneg_training.setup.plugins import plugin_option
from research.study.plan import names, read_plan

_name = click.argument("name")
_results = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("research/results"),
    show_default=True,
    help="Their folder.",
)
_root = click.option(
    "--root", type=click.Path(path_type=Path), help="Where named data sets lie; default: $NONNEG_DATA."
)


@click.group()
def study() -> None:
    """Measure the method's claims: a grid of runs, a table, a plot, and a verdict that may be "not decided".

    \b
      python -m research.study list
      python -m research.study run digits
      python -m research.study run quick --root data/ --budget 0.25
      python -m research.study check cifar10

    NAME is a study of research/study/plans, or a TOML file of the same form.
    """


@study.command("list")
def list_studies() -> None:
    """List the studies of research/study/plans."""
    from nonneg_core.terminal.tables import table

    plans = [read_plan(name) for name in names()]
    click.echo(
        table(
            ["study", "about", "variants", "seeds"],
            [[name, plan.title, len(plan.variants), len(plan.seeds)] for name, plan in plans],
        )
    )


@study.command()
@_name
@_results
@_root
@plugin_option
def show(name: str, results: Path, root: Path | None) -> None:
    """Show what NAME asks, and what its results say so far."""
    from research.study import Study

    click.echo(Study(name, results=results, root=root).page(), nl=False)


@study.command()
@_name
@_results
@_root
@click.option("--work", type=click.Path(path_type=Path), help="Where checkpoints are kept; default: the user's cache.")
@click.option("--budget", type=click.FloatRange(min=0), metavar="HOURS", help="Begin no run that would not fit.")
@plugin_option
def run(name: str, results: Path, root: Path | None, work: Path | None, budget: float | None) -> None:
    """Train and measure what NAME lacks, and say whether its claims hold.

    It may be killed at will: finished runs are kept, the one under way goes on from its last checkpoint. A run with
    other settings is another run; results of other settings are neither used nor overwritten without being named. A run
    that stops because it cannot come to anything is named, and the others are made.
    """
    from research.study import Study

    experiment = Study(name, results=results, work=work, root=root)
    for stranger in experiment.strangers():
        click.echo(f"{stranger.variant}, seed {stranger.seed}: of other settings, made again", err=True)
    stopped = None
    try:
        experiment.run(budget=budget, say=click.echo)
    except TrainingStopped as error:
        stopped = error
    for verdict in experiment.verdicts():
        click.echo(f"{verdict.claim.says}: {verdict.status}")
        for checked in verdict.checks:
            click.echo(f"  {checked}")
    click.echo(f"{experiment.folder}: {len(experiment.results())} of {len(experiment.grid())} runs")
    if stopped is not None:
        raise stopped


@study.command()
@click.argument("name", required=False)
@_results
@_root
@plugin_option
def check(name: str | None, results: Path, root: Path | None) -> None:
    """Check that a study (or each) can be run, and that its results are whole, of these settings, and complete.

    It ends with exit code 1 where one is not.
    """
    from research.study import Study

    failed = 0
    for each in [name] if name else names():
        try:
            experiment = Study(each, results=results, root=root)
            strangers, missing, runs = experiment.strangers(), experiment.missing(), experiment.grid()
        except NonnegError as error:
            failed += 1
            click.echo(f"{each}: {error}")
            continue
        remarks = [f"{len(runs) - len(missing)} of {len(runs)} runs"]
        remarks += [f"{s.variant}-{s.seed}.json is of other settings" for s in strangers]
        machines = {result.machine for result in experiment.results()}
        remarks += [f"{len(machines)} machines"] if len(machines) > 1 else []
        click.echo(f"{each}: {'; '.join(remarks)}")
        failed += bool(strangers or missing)
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    run_command(study, "python -m research.study")
