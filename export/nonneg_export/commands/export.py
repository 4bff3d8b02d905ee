"""`nonneg export`: from a training run to a bundle."""

from pathlib import Path
from typing import Any

import click

from nonneg_export.assembly.run_draft import draft
from nonneg_export.commands import options
from nonneg_export.commands.draft_to_bundle import write_and_show
from nonneg_training.setup.plugins import plugin_option


@click.command()
@click.argument("run", type=options.PATH)
@options.calibration_options
@options.ranking_options
@options.evaluation_options
@options.captions_option
@options.output_options
@click.option("--relu", is_flag=True, help="Put a ReLU behind an encoder that is not non-negative.")
@options.about_options
@plugin_option
def export(run: Path, relu: bool, **flags: Any) -> None:
    """Turn the training run RUN into a bundle: ONNX, best dimension first, verified, with its evidence.

    An interrupted export goes on where it stopped when it is started again.

    \b
      nonneg export runs/photos --calibrate photos/ --out photos.bundle
      nonneg export runs/photos --calibrate photos/ --out photos.bundle --evaluate labelled/
    """
    write_and_show(lambda *_: draft(run, options.about(flags), relu=relu), flags)
