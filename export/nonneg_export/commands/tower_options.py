"""Options of `nonneg wrap` that say which tower of a model is taken and how it sees photos."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from nonneg_core.pixels.resizing import Interpolation
from nonneg_export.commands.options import PATH, together
from nonneg_export.published import from_onnx
from nonneg_export.published.address import address
from nonneg_export.published.open_tower import open_tower
from nonneg_export.published.tower import USUAL_VIEW, Tower, TowerOverrides
from nonneg_export.published.unused_options import refuse_unused
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

NUMBERS = (click.FLOAT,) * 3
USUAL_GIGABYTES = 4
SEEN = ("size", "crop", "fit", "interpolation")

tower_options = together(
    click.option(
        "--file",
        metavar="NAME|fp32|fp16|int8|torch",
        help="Which file of the repository: an ONNX file, a precision, or its weights through torch.",
    ),
    click.option("--max-download", type=click.FloatRange(0, min_open=True),
                 help="Largest tower to fetch, all its files, in GB; else 4."),
    click.option("--accept-license", help="Take a model whose licence forbids changed copies, by that licence's name."),
    click.option("--preprocessor", type=PATH, help="A Hugging Face preprocessor_config.json to take the view from."),
    click.option("--size", type=click.IntRange(1), help="Side of the encoder's input; else 224."),
    click.option("--crop", type=click.FloatRange(0, 1, min_open=True), help="Share of the short side; else 0.875."),
    click.option("--fit", type=click.Choice(("cover", "squash", "contain")), help="Other shapes; else cover."),
    click.option("--interpolation", type=click.Choice(get_args(Interpolation)),
                 help="Else bicubic."),
    click.option("--mean", type=NUMBERS, help=f"Of pixels between 0 and 1; else {Scaling().mean}."),
    click.option("--std", type=NUMBERS, help=f"Of pixels between 0 and 1; else {Scaling().std}."),
    click.option("--input", "input_name", help="The ONNX file's input, if it has several."),
    click.option("--output", "output_name", help="The output that is taken; by default by the architecture."),
    click.option("--no-text", is_flag=True, help="Leave a second tower, of texts, out."),
    click.option("--pool", type=click.Choice(("cls", "mean")), help="How tokens or a feature map become one row; by "
                 "default by the architecture."),
)  # fmt: skip


def tower_of(model: str, flags: dict[str, Any]) -> Tower:
    """Return the tower that the command's words name."""
    where = address(model)
    wishes = TowerOverrides(
        output=flags["output_name"],
        pool=flags["pool"],
        file=flags["file"],
        seen={name: flags[name] for name in SEEN if flags[name] is not None},
        mean=flags["mean"],
        std=flags["std"],
        accepted=flags["accept_license"],
        text=not flags["no_text"],
        limit=int((flags["max_download"] or USUAL_GIGABYTES) * 2**30),
    )
    if flags["preprocessor"] is not None:
        wishes = replace(wishes, preprocessing=read_preprocessor(flags["preprocessor"], wishes.otherwise))
    if where.kind != "file":
        refuse_unused(model, {"--input": flags["input_name"]})
        return open_tower(where, wishes)
    unused = {
        "--file": wishes.file,
        "--accept-license": wishes.accepted,
        "--max-download": flags["max_download"],
        "--no-text": flags["no_text"],
    }
    refuse_unused(f"the file {model}", unused)
    view, scaling = wishes.applied(USUAL_VIEW, Scaling())
    return from_onnx.tower(
        from_onnx.OnnxInterface(Path(where.name), view, scaling, flags["input_name"], wishes.output, wishes.pool)
    )
