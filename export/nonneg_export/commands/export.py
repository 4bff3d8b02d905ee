"""`nonneg export`: from a training run to a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nonneg_export.assemble import rank, report, seal
from nonneg_export.bundle import check_free
from nonneg_export.checkpoint import draft
from nonneg_export.commands.options import (
    PATH,
    about,
    about_options,
    calibration,
    calibration_options,
    evaluation_options,
    output_options,
    tell_broken,
)
from nonneg_export.commands.progress import progress
from nonneg_export.photos import find_photos
from nonneg_export.report import summary
from nonneg_export.statistics import RULES, Rule
from nonneg_export.workplace import workplace


@click.command()
@click.argument("run", type=PATH)
@calibration_options
@evaluation_options
@output_options
@click.option("--dimensions", type=int, help="Keep only the best so many.")
@click.option("--rank-by", type=click.Choice(RULES), default=RULES[0], show_default=True, help="What is best.")
@click.option("--relu", is_flag=True, help="Put a ReLU behind an encoder that is not non-negative.")
@about_options
def export(
    run: Path, out: Path, replace: bool, dimensions: int | None, rank_by: Rule, relu: bool, **flags: Any
) -> None:
    """Turn the training run RUN into a bundle: ONNX, best dimension first, verified, with its evidence.

    An interrupted export goes on where it stopped when it is started again.
    """
    check_free(out, replace=replace)
    photos = calibration(flags)
    labelled = None if flags["evaluate"] is None else find_photos(flags["evaluate"])
    made = draft(run, about(flags, out), relu=relu)
    with workplace(out, flags["work"]) as place, progress("calibrating") as tick:
        ranked = rank(made, photos, place, rule=rank_by, dimensions=dimensions, data=flags["data"], tick=tick)
        if labelled is not None:
            ranked = report(ranked, labelled, place, data=flags["evaluation_data"], tick=tick)
        bundle = seal(ranked, out, overwrite=replace)
    tell_broken(ranked.seen.broken)
    click.echo(f"{out}\n{summary(bundle.manifest)}")
