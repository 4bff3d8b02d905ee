"""`nonneg wrap`: any image encoder becomes a bundle; its features are run once, for the head and for the order."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from nonneg_core.arrays import Flags
from nonneg_core.pixels.view import Interpolation
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_export.assembly.calibrate_and_seal import Draft, HeadFileOptions, RankedDraft
from nonneg_export.assembly.head_steps import ANALYTIC, NONE, EncoderWithHead, HeadSteps, behind, check_head_steps
from nonneg_export.assembly.text_towers import TextEncoder, beside, check_width
from nonneg_export.calibrate.activations import Activations, Origin, collect
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks.agreement import doubts, held_out, shared_neighbours
from nonneg_export.checks.encoder_checks import answers, features_agree, samples
from nonneg_export.checks.preprocessing_checks import sees_as_original
from nonneg_export.commands import options
from nonneg_export.commands.draft_to_bundle import write_and_show
from nonneg_export.graphs.canonical import is_lossless, save
from nonneg_export.share.hub_repository import address
from nonneg_export.share.model_card import NOT_STATED, About
from nonneg_export.wrap import from_onnx
from nonneg_export.wrap.open_tower import open_tower
from nonneg_export.wrap.tower import USUAL_VIEW, Tower, TowerOverrides, refuse_unused
from nonneg_runtime.bundle.bundle_folder import check_free
from nonneg_runtime.bundle.evidence import Check
from nonneg_runtime.bundle.manifest import Provenance, TextRecord
from nonneg_runtime.heads.feature_head import FittedHead
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

FEATURES = "features.onnx"


@dataclass(frozen=True, eq=False)
class Wrapped:
    """An encoder's draft, and what its manifest will say of head and features."""

    draft: Draft
    behind: EncoderWithHead
    features: Activations  # the encoder's own, of the calibration photos
    held_out: Flags  # photos that the head was not computed from
    text: TextEncoder | None = None

    @property
    def below_zero(self) -> float:
        """The share of the features' squares that lies below zero."""
        rows = np.asarray(self.features.values, dtype=np.float64)
        return float(np.square(np.minimum(rows, 0)).sum() / max(np.square(rows).sum(), np.finfo(np.float64).tiny))

    def described(self, ranked: RankedDraft, data: str) -> RankedDraft:
        """Return the ranked encoder with what its columns keep of the features, and with the text tower beside it."""
        place, order = ranked.encoder.parent, list(ranked.manifest.columns.original)
        neighbours = shared_neighbours(
            self.features.values[self.held_out], ranked.activations.values[self.held_out][:, order], data
        )
        changes = {"kept": neighbours, "text": self._words(place)}
        origin = Origin(place / FEATURES, lambda rows: self.behind.apply(rows)[:, order])
        return replace(ranked, manifest=ranked.manifest.model_copy(update=changes), origin=origin)

    def _words(self, place: Path) -> TextRecord | None:
        """Return the text tower beside the encoder, where the model has one that its head fits."""
        fitted = self.behind.fitted
        if self.text is None or fitted is None or fitted.takes != "directions":
            return None
        return beside(self.text, np.asarray(self.features.values[~self.held_out]), place)


def draft(
    tower: Tower, how: HeadSteps, about: About, photos: Photos, place: Path, *, tick: Tick | None = None
) -> Wrapped:
    """Run the photos through the encoder, compute what comes behind it, and put both together."""
    if tower.text is not None:
        check_width(tower.text, tower.model)
    save(tower.model, place / FEATURES)
    activations = collect(place / FEATURES, photos, tower.view, place / "features", tick=tick)
    holdout = held_out(len(activations.paths))
    rest = behind(how, tower.model, np.asarray(activations.values[~holdout]))
    licence = about.weights_license if about.weights_license != NOT_STATED else tower.licence
    inner_draft = Draft(
        model=rest.model,
        view=tower.view,
        name=about.name,
        version=about.version,
        activation=rest.activation,
        description=f"{tower.weights}, wrapped",
        precision="fp16" if is_lossless(tower.model) else "fp32",
        nested=rest.fitted is not None,
        smooth=place / FEATURES if rest.fitted is not None else None,
        columns=rest.apply if rest.fitted is not None else None,
        head=_apart(rest.fitted),
        activations=replace(activations, values=rest.apply(np.asarray(activations.values))),
        checks=_as_the_original(tower, place / FEATURES, activations),
        provenance=Provenance(
            weights=tower.weights,
            weights_license=licence,
            data="not stated",
            data_license=about.data_license,
            fetched=tower.fetched,
        ),
    )
    return Wrapped(inner_draft, rest, activations, holdout, tower.text)


def _apart(fitted: FittedHead | None) -> HeadFileOptions | None:
    """Return a computed head, whose weights go into a file of their own."""
    return None if fitted is None else HeadFileOptions(fitted.head.power, fitted.takes, fitted.trained, fitted.spread)


def _as_the_original(tower: Tower, encoder: Path, activations: Activations) -> tuple[Check, ...]:
    """Check that photos are seen as the original sees them, and answered as it answers, where it is at hand."""
    seen_alike: tuple[Check, ...] = ()
    if tower.original_pixels is not None:
        seen_alike = (sees_as_original(tower.view, tower.original_pixels, activations.paths),)
    if tower.reference is None:
        return seen_alike
    pixels = samples(activations.paths, tower.view)
    ours = answers(Session(encoder, threads=available_cores()).run, pixels)
    return (
        *seen_alike,
        features_agree(answers(tower.reference, pixels), ours, f"{len(pixels) - 1} photos and a pattern"),
    )


# The command.

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on a busy machine its threads wait for each other

LOST = 0.01  # of the features' squares: less below zero is rounding
NUMBERS = (click.FLOAT,) * 3
USUAL_GIGABYTES = 4
SEEN = ("size", "crop", "fit", "interpolation")

tower_options = options.together(
    click.option(
        "--file",
        metavar="NAME|fp32|fp16|int8|torch",
        help="Which file of the repository: an ONNX file, a precision, or its weights through torch.",
    ),
    click.option("--max-download", type=click.FloatRange(0, min_open=True),
                 help="Largest tower to fetch, all its files, in GB; else 4."),
    click.option("--accept-license", help="Take a model whose licence forbids changed copies, by that licence's name."),
    click.option("--preprocessor", type=options.PATH,
                 help="A Hugging Face preprocessor_config.json to take the view from."),
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


@click.command()
@click.argument("model")
@options.calibration_options
@tower_options
@click.option(
    "--head",
    metavar="analytic|train|none|FILE",
    help="What makes features non-negative: analytic (the default) computes it from the photos, train teaches its "
    "first columns on them as well (needs torch), none takes the output as it is. FILE is a linear layer, .npz or "
    ".safetensors with `weight` and `bias`.",
)
@click.option("--centre", is_flag=True, help="Subtract the mean of the calibration photos, then ReLU.")
@click.option("--relu", is_flag=True, help="Put a ReLU behind it.")
@options.ranking_options
@options.evaluation_options
@options.captions_option
@options.output_options
@options.about_options
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
    check_head_steps(how)
    check_free(flags["out"], replace=flags["replace"])
    tower = tower_of(model, flags)
    for note in tower.notes:
        click.echo(f"{model}: {note}", err=True)
    wrapped: list[Wrapped] = []

    def start(place: Path, photos: Photos, tick: Tick) -> Draft:
        wrapped.append(draft(tower, how, options.about(flags), photos, place, tick=tick))
        if how.relu and how.layer is None and wrapped[0].below_zero > LOST:
            options.warn(
                f"--relu drops what is below zero, {wrapped[0].below_zero:.0%} of the features' squares: "
                "leave it out, and the head keeps both sides"
            )
        return wrapped[0].draft

    def finish(ranked: RankedDraft) -> RankedDraft:
        return wrapped[0].described(ranked, flags["data"] or flags["calibrate"].name)

    made = write_and_show(start, flags, finish=finish)
    if tower.text is not None and made.manifest.text is None:
        options.warn("the text tower was left out: it needs the analytic head, of features that go below zero")
    for sentence in doubts(made.manifest):
        options.warn(sentence)


def tower_of(model: str, flags: dict[str, Any]) -> Tower:
    """Return the tower that the command's words name."""
    where = address(model)
    overrides = TowerOverrides(
        output=flags["output_name"],
        pool=flags["pool"],
        file=flags["file"],
        view_fields={name: flags[name] for name in SEEN if flags[name] is not None},
        mean=flags["mean"],
        std=flags["std"],
        accepted=flags["accept_license"],
        text=not flags["no_text"],
        limit=int((flags["max_download"] or USUAL_GIGABYTES) * 2**30),
    )
    if flags["preprocessor"] is not None:
        overrides = replace(overrides, preprocessing=read_preprocessor(flags["preprocessor"], overrides.otherwise))
    if where.kind != "file":
        refuse_unused(model, {"--input": flags["input_name"]})
        return open_tower(where, overrides)
    unused = {
        "--file": overrides.file,
        "--accept-license": overrides.accepted,
        "--max-download": flags["max_download"],
        "--no-text": flags["no_text"],
    }
    refuse_unused(f"the file {model}", unused)
    view, scaling = overrides.applied(USUAL_VIEW, Scaling())
    return from_onnx.tower(
        from_onnx.OnnxInterface(Path(where.name), view, scaling, flags["input_name"], overrides.output, overrides.pool)
    )
