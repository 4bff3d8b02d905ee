"""`nonneg rank` and `nonneg quantize`: a bundle from a bundle, ranked by other photos or smaller."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nonneg_core.errors import ConfigInvalid
from nonneg_core.terminal.progress import ProgressBar
from nonneg_export.assembly.calibrate_and_seal import seal
from nonneg_export.assembly.quantized_bundle import Small, evaluated, quantized
from nonneg_export.assembly.reranked_bundle import compose_order, draft_of, left_out, overlaps
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_export.calibrate.workdir import workdir
from nonneg_export.commands import options
from nonneg_export.commands.draft_to_bundle import triton_repository, write_and_show
from nonneg_export.share.manifest_report import size, summary, table
from nonneg_runtime.bundle.bundle_folder import Bundle, check_free, open_bundle
from nonneg_runtime.inference.variants import place_of


@click.command()
@click.argument("bundle", type=options.PATH, required=False)
@options.calibration_options
@options.ranking_options
@options.evaluation_options
@options.captions_option
@options.output_options
@options.name_option
def rank(bundle: Path | None, **flags: Any) -> None:
    """Rank BUNDLE (by default the default model) by your own photos.

    The graph is edited: neither torch nor the checkpoint is needed. The new bundle has a new fingerprint, because its
    vectors cannot be compared with the old ones. An order that was trained (nested), as the default model's, is kept
    unless --rank-by says otherwise: sorted by your photos its short prefixes would lose. What makes a better model for
    your photos is `nonneg adapt`.

    \b
      nonneg rank --images photos/ --out mine.bundle
    """
    old = open_bundle(bundle)
    new = write_and_show(
        lambda *_: replace(draft_of(old), name=options.named(flags)),
        flags,
        finish=lambda ranked: compose_order(ranked, old),
    )
    before = {original: i for i, original in enumerate(old.manifest.columns.original)}
    order = [before[original] for original in new.manifest.columns.original]
    if new.manifest.calibration.ranked_by == "nested":
        click.echo("the order was trained and is kept; --rank-by sorts it by your photos")
    for part in left_out(old.manifest, new.manifest):
        click.echo(f"not in the new bundle: {part}")
    rows = [(str(o.dimensions), f"{o.share:.0%}") for o in overlaps(range(len(before)), order)]
    click.echo(f"\nold order: {_head(range(len(before)))}\nnew order: {_head(order)}  (numbered by the old one)\n")
    click.echo(table(("first", "in both"), rows))


def _head(order: Sequence[int]) -> str:
    return " ".join(map(str, order[:12])) + (" …" if len(order) > 12 else "")


# `nonneg quantize`: a bundle whose encoder is smaller and faster, with what that costs.


@click.command()
@click.argument("bundle", type=options.PATH, required=False)
@click.option("--to", type=click.Choice(("int8", "bf16", "fp16")), default="int8", show_default=True)
@options.calibration_options
@click.option(
    "--min-quality", type=click.FloatRange(0, 1), default=0.8, show_default=True,
    help="Refuse when a smaller share of each photo's ten nearest neighbours is kept.",
)  # fmt: skip
@options.evaluation_options
@options.variant_options
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
    new, repository = quantize_and_show(old, to, out, min_quality, flags)
    before, after = old.stored, new.stored
    click.echo(f"{new.path}: encoder {size(before)} -> {size(after)}\n{summary(new.manifest)}")
    if repository is not None:
        click.echo(f"Triton model repository: {repository}")


def quantize_and_show(
    old: Bundle, to: Small, out: Path, min_quality: float, flags: dict[str, Any]
) -> tuple[Bundle, Path | None]:
    """Quantise, compare, report and write, as the flags say."""
    check_free(out, replace=flags["replace"])
    photos = options.calibration(flags)
    labelled = None if flags["evaluate"] is None else find_photos(flags["evaluate"])
    with workdir(out, flags["work"]) as work:
        with ProgressBar("comparing") as bar:
            shrunk = quantized(old, to, photos, work, min_quality=min_quality, tick=bar.move)
        if labelled is not None:
            shrunk = evaluated(shrunk, photos, labelled, work, data=flags["evaluation_data"])
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
