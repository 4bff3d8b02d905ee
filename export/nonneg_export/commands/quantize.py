"""`nonneg quantize`: a bundle whose encoder is smaller and faster, with what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nonneg_core.errors import ConfigInvalid
from nonneg_core.progress import ProgressBar
from nonneg_export.assemble import seal
from nonneg_export.commands.build import triton_repository
from nonneg_export.commands.options import PATH, calibration, calibration_options, evaluation_options, variant_options
from nonneg_export.manifest_report import size, summary
from nonneg_export.photo_folder import find_photos
from nonneg_export.quantized_bundle import Small, evaluated, quantized
from nonneg_export.workdir import note_sealed, sealed_before, workdir
from nonneg_runtime.bundle import Bundle, check_free, open_bundle
from nonneg_runtime.variants import place_of


@click.command()
@click.argument("bundle", type=PATH, required=False)
@click.option("--to", type=click.Choice(("int8", "bf16", "fp16")), default="int8", show_default=True)
@calibration_options
@click.option(
    "--min-quality", type=click.FloatRange(0, 1), default=0.8, show_default=True,
    help="Refuse when a smaller share of each photo's ten nearest neighbours is kept.",
)  # fmt: skip
@evaluation_options
@variant_options
def quantize(bundle: Path | None, to: Small, min_quality: float, **flags: Any) -> None:
    """Make BUNDLE (by default the default model) smaller or faster.

    int8: 8-bit weights and activations, static. bf16: the same weights, computed in bfloat16 through OpenVINO where the
    processor has it. fp16: weights stored as float16, computed with as before.

    Half of the photos set the ranges, the other half shows what it costs: cosine to the original, and how many of
    each photo's ten nearest neighbours stay. The new bundle has a new fingerprint.

    \b
      nonneg quantize my.bundle --images photos/ && nonneg serve --model my.bundle --precision int8
      nonneg quantize my.bundle --to fp16 --images photos/ --out small.bundle
    """
    old = open_bundle(bundle)
    out: Path = flags["out"] or place_beside(old, to)
    if to == "bf16" and flags["triton"] is not None:
        raise ConfigInvalid("--triton serves through ONNX Runtime, which computes no bf16", fix="leave one of them out")
    if sealed_before(out, flags["work"]) and not flags["replace"]:
        new = open_bundle(out)
        repository = triton_repository(new, flags["triton"], again=False)
    else:
        new, repository = made(old, to, out, min_quality, flags)
    before, after = old.stored, new.stored
    click.echo(f"{new.path}: encoder {size(before)} -> {size(after)}\n{summary(new.manifest)}")
    if repository is not None:
        click.echo(f"Triton model repository: {repository}")


def made(old: Bundle, to: Small, out: Path, min_quality: float, flags: dict[str, Any]) -> tuple[Bundle, Path | None]:
    """Quantise, compare, report and write, as the flags say."""
    check_free(out, replace=flags["replace"])
    photos = calibration(flags)
    labelled = None if flags["evaluate"] is None else find_photos(flags["evaluate"])
    with workdir(out, flags["work"]) as work:
        with ProgressBar("comparing") as bar:
            shrunk = quantized(old, to, photos, work, min_quality=min_quality, tick=bar.move)
        if labelled is not None:
            shrunk = evaluated(shrunk, photos, labelled, work, data=flags["evaluation_data"])
        note_sealed(work, shrunk.encoder)
        new = seal(shrunk, out, overwrite=flags["replace"])
        return new, triton_repository(new, flags["triton"])


def place_beside(old: Bundle, to: Small) -> Path:
    """Name the folder beside the bundle where the server looks; refused where the bundle holds such a form itself."""
    if any(variant.precision == to for variant in old.manifest.variants):
        raise ConfigInvalid(
            f"{old.manifest.name} holds its {to} form already, and --precision {to} serves that one: a variant beside "
            "the bundle would never be used",
            fix=f"serve it: nonneg serve --model {old.path} --precision {to}; or write another with --out",
            field="to",
            value=to,
        )
    return place_of(old.path, to)
