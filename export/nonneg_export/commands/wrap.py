"""`nonneg wrap`: any image encoder becomes a bundle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on a busy machine its threads wait for each other

from nonneg_export.activations import Tick
from nonneg_export.assemble import Draft, RankedDraft
from nonneg_export.checks.kept_neighbours import doubts
from nonneg_export.commands.build import make
from nonneg_export.commands.options import (
    about,
    about_options,
    calibration_options,
    captions_option,
    evaluation_options,
    output_options,
    ranking_options,
    warn,
)
from nonneg_export.commands.tower_options import tower_of, tower_options
from nonneg_export.head_steps import ANALYTIC, NONE, HeadSteps, check
from nonneg_export.photo_folder import Photos
from nonneg_export.wrapped_draft import Wrapped, draft
from nonneg_runtime.bundle import check_free

LOST = 0.01  # of the features' squares: less below zero is rounding


@click.command()
@click.argument("model")
@calibration_options
@tower_options
@click.option(
    "--head",
    metavar="analytic|train|none|FILE",
    help="What makes features non-negative: analytic (the default) computes it from the photos, train teaches its "
    "first columns on them as well (needs torch), none takes the output as it is; FILE is a linear layer, .npz or "
    ".safetensors with `weight` and `bias`.",
)
@click.option("--centre", is_flag=True, help="Subtract the mean of the calibration photos, then ReLU.")
@click.option("--relu", is_flag=True, help="Put a ReLU behind it.")
@ranking_options
@evaluation_options
@captions_option
@output_options
@about_options
def wrap(model: str, **flags: Any) -> None:
    """Turn MODEL, any encoder of images, into a bundle.

    MODEL is FILE.onnx, hf:owner/name[@revision], timm:NAME, open_clip:NAME/TAG or torchvision:NAME. Its features become
    non-negative, sparse and ordered by a head that is computed from the photos, and the price of that is printed.

    \b
      nonneg wrap hf:facebook/dinov2-small --calibrate photos/ --out dino.bundle
      nonneg wrap dino.onnx --preprocessor preprocessor_config.json --pool cls --calibrate photos/ --out dino.bundle
    """
    how = HeadSteps(
        head=flags["head"] or (NONE if flags["centre"] or flags["relu"] else ANALYTIC),
        centre=flags["centre"],
        relu=flags["relu"],
    )
    check(how)
    check_free(flags["out"], replace=flags["replace"])
    tower = tower_of(model, flags)
    for note in tower.notes:
        click.echo(f"{model}: {note}", err=True)
    found: list[Wrapped] = []

    def start(place: Path, photos: Photos, tick: Tick) -> Draft:
        found.append(draft(tower, how, about(flags), photos, place, tick=tick))
        if how.relu and how.layer is None and found[0].below_zero > LOST:
            warn(
                f"--relu drops what is below zero, {found[0].below_zero:.0%} of the features' squares: "
                "leave it out, and the head keeps both sides"
            )
        return found[0].draft

    def finish(ranked: RankedDraft) -> RankedDraft:
        return found[0].described(ranked, flags["data"] or flags["calibrate"].name)

    made = make(start, flags, finish=finish)
    if tower.text is not None and made.manifest.text is None:
        warn("the text tower was left out: it needs the analytic head, of features that go below zero")
    for sentence in doubts(made.manifest):
        warn(sentence)
