"""`nonneg wrap`: any ONNX image encoder becomes a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nonneg_core.pixels.view import View
from nonneg_export.activations import Tick
from nonneg_export.assemble import Draft, Ranked
from nonneg_export.commands.build import make
from nonneg_export.commands.options import (
    PATH,
    about,
    about_options,
    calibration_options,
    evaluation_options,
    output_options,
    ranking_options,
    warn,
)
from nonneg_export.kept import doubts
from nonneg_export.photo_folder import Photos
from nonneg_export.wrapped_draft import Wrapped, draft
from nonneg_export.wrapping import ANALYTIC, NONE, Wrapping, check
from nonneg_training.onnx_backbone.adapting import Scaling
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor

NUMBERS = (click.FLOAT,) * 3
LOST = 0.01  # of the features' squares: less below zero is rounding


@click.command()
@click.argument("encoder", type=PATH)
@calibration_options
@click.option("--preprocessor", type=PATH, help="A Hugging Face preprocessor_config.json to take the view from.")
@click.option("--size", type=click.IntRange(1), default=224, show_default=True, help="Side of the encoder's input.")
@click.option("--crop", type=click.FloatRange(0, 1, min_open=True), default=0.875, show_default=True)
@click.option("--fit", type=click.Choice(("cover", "squash", "contain")), default="cover", show_default=True)
@click.option("--interpolation", type=click.Choice(("bicubic", "bilinear", "lanczos", "nearest")), default="bicubic")
@click.option("--mean", type=NUMBERS, default=Scaling().mean, show_default=True, help="Of pixels between 0 and 1.")
@click.option("--std", type=NUMBERS, default=Scaling().std, show_default=True, help="Of pixels between 0 and 1.")
@click.option("--input", "input_name", help="The encoder's input, if it has several.")
@click.option("--output", "output_name", help="The encoder's output, if it has several.")
@click.option("--pool", type=click.Choice(("cls", "mean")), help="How tokens or a feature map become one row.")
@click.option(
    "--head",
    metavar="analytic|none|FILE",
    help="What makes features non-negative: analytic (the default) computes it from the photos, none takes the output "
    "as it is; FILE is a linear layer, .npz or .safetensors with `weight` and `bias`.",
)
@click.option("--centre", is_flag=True, help="Subtract the mean of the calibration photos, then ReLU.")
@click.option("--relu", is_flag=True, help="Put a ReLU behind it.")
@ranking_options
@evaluation_options
@output_options
@about_options
def wrap(encoder: Path, preprocessor: Path | None, **flags: Any) -> None:
    """Turn ENCODER, any ONNX model that embeds images, into a bundle.

    Its features become non-negative, sparse and ordered by a head that is computed from the photos, and the price of
    that is printed.

    \b
      nonneg wrap dino.onnx --preprocessor preprocessor_config.json --pool cls --calibrate photos/ --out dino.bundle
    """
    view, scaling = _seen(flags) if preprocessor is None else read_preprocessor(preprocessor)
    how = Wrapping(
        encoder=encoder,
        view=view,
        scaling=scaling,
        input_name=flags["input_name"],
        output_name=flags["output_name"],
        pool=flags["pool"],
        head=flags["head"] or (NONE if flags["centre"] or flags["relu"] else ANALYTIC),
        centre=flags["centre"],
        relu=flags["relu"],
    )
    check(how)
    found: list[Wrapped] = []

    def start(place: Path, photos: Photos, tick: Tick) -> Draft:
        found.append(draft(how, about(flags), photos, place, tick=tick))
        if how.relu and how.layer is None and found[0].below_zero > LOST:
            warn(
                f"--relu drops what is below zero, {found[0].below_zero:.0%} of the features' squares: "
                "leave it out, and the head keeps both sides"
            )
        return found[0].draft

    def finish(ranked: Ranked) -> Ranked:
        return found[0].described(ranked, flags["data"] or flags["calibrate"].name)

    made = make(start, flags, finish=finish)
    for sentence in doubts(made.manifest):
        warn(sentence)


def _seen(flags: dict[str, Any]) -> tuple[View, Scaling]:
    view = View(size=flags["size"], crop=flags["crop"], fit=flags["fit"], interpolation=flags["interpolation"])
    return view, Scaling(mean=flags["mean"], std=flags["std"])
