"""`nonneg wrap`: any ONNX image encoder becomes a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nonneg_core.pixels.view import View
from nonneg_export.assemble import About, Draft
from nonneg_export.commands.build import make
from nonneg_export.commands.options import (
    PATH,
    about,
    about_options,
    calibration,
    calibration_options,
    evaluation_options,
    output_options,
    ranking_options,
)
from nonneg_export.fp16_weights import is_lossless
from nonneg_export.wrapping import Wrapping, wrapped
from nonneg_runtime.manifest import Provenance
from nonneg_training.onnx_backbone.adapting import Scaling
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor

NUMBERS = (click.FLOAT,) * 3


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
@click.option("--head", type=PATH, help="A linear layer behind it: .npz or .safetensors with `weight` and `bias`.")
@click.option("--centre", is_flag=True, help="Subtract the mean of the calibration photos, then ReLU.")
@click.option("--relu", is_flag=True, help="Put a ReLU behind it.")
@ranking_options
@evaluation_options
@output_options
@about_options
def wrap(encoder: Path, preprocessor: Path | None, **flags: Any) -> None:
    """Turn ENCODER, any ONNX model that embeds images, into a bundle.

    It needs a non-negative output: its own, a trained head's with --relu, or --centre for ordinary features.

    \b
      nonneg wrap dino.onnx --preprocessor preprocessor_config.json --pool cls --centre \\
          --calibrate photos/ --out dino.bundle
    """
    view, scaling = _seen(flags) if preprocessor is None else read_preprocessor(preprocessor)
    how = Wrapping(
        encoder=encoder,
        view=view,
        scaling=scaling,
        input_name=flags["input_name"],
        output_name=flags["output_name"],
        pool=flags["pool"],
        head=flags["head"],
        centre=flags["centre"],
        relu=flags["relu"],
    )
    make(lambda: _draft(how, about(flags), flags), flags)


def _draft(how: Wrapping, said: About, flags: dict[str, Any]) -> Draft:
    model = wrapped(how, calibration(flags, quiet=True))
    return Draft(
        model=model,
        view=how.view,
        name=said.name,
        version=said.version,
        activation=how.activation,
        description=f"{how.encoder.name}, wrapped",
        precision="fp16" if is_lossless(model) else "fp32",
        provenance=Provenance(
            weights=how.encoder.name,
            weights_license=said.weights_license,
            data="not stated",
            data_license=said.data_license,
        ),
    )


def _seen(flags: dict[str, Any]) -> tuple[View, Scaling]:
    view = View(size=flags["size"], crop=flags["crop"], fit=flags["fit"], interpolation=flags["interpolation"])
    return view, Scaling(mean=flags["mean"], std=flags["std"])
