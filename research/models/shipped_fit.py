"""From a trained head to a model that is shipped: names with their evidence, an int8 form with its loss, quality."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nonneg_training
from nonneg_core.arrays import Doubles, Floats, Numbers
from nonneg_export.assembly.quantized_bundle import to_int8
from nonneg_export.calibrate.activations import calibrated_on, collect
from nonneg_export.calibrate.column_ranking import measure
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks import preprocessing_checks
from nonneg_export.checks.agreement import agreement, as_checks
from nonneg_export.checks.encoder_checks import ignores_batch_mates, record, samples
from nonneg_export.checks.quality_report import evaluate
from nonneg_export.graphs.canonical import restore_fp32, save
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle, write_bundle
from nonneg_runtime.bundle.evidence import Check
from nonneg_runtime.bundle.head_file import HEAD, SPREAD, write_spread
from nonneg_runtime.bundle.manifest import HeadRecord, Manifest, Variant
from nonneg_runtime.heads.analytic_head import EXPONENT, Basis, components, polar
from nonneg_runtime.heads.head import Head, class_directions
from nonneg_runtime.heads.moments import Spread
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.words.names import NAMES, Names
from nonneg_training.data import open_source
from nonneg_training.data.image_folder import ImageFolder
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_training.features.feature_blocks import FeatureRequest
from nonneg_training.features.feature_cache import CachedFeatures, cached_features
from nonneg_training.loop.build_encoder import build_encoder
from nonneg_training.loop.training_checkpoint import CHECKPOINT_FILE, read_checkpoint, run_settings
from nonneg_training.loop.training_checkpoint import ENCODER as WEIGHTS
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import read_settings
from research.models import naming
from research.models.rebuild import FITTED_ON, INT8, PLANS, class_labels, pooled, provenance, write_encoders
from research.models.shipped_names import completed, record_of_names

FOR_RANGES, FOR_JUDGING = 200, 1000
LEAST_KEPT = {"int8": 0.6}  # of the ten nearest neighbours: a gate is a jump, which moves codes more than rankings
TOLERANCE = 0.95  # of int8's golden vector: processors round differently; one that saturates is far below


@dataclass(frozen=True, eq=False)
class Trained:
    """What a run left."""

    head: Head
    spread: Spread
    classes: Numbers
    trained: int
    components: int
    views: CachedFeatures  # pooled, as it learnt from them
    paths: tuple[Path, ...]


def read_run(run: Path) -> Trained:
    """Return the head of a run, what it was computed from, and the cached features it learnt from."""
    settings, checkpoint = run_settings(run), read_checkpoint(run).tensors
    layer = {name: checkpoint[f"{WEIGHTS}output.{name}"].numpy() for name in ("weight", "bias")}
    head = Head(layer["weight"].T.copy(), layer["bias"], checkpoint[f"{WEIGHTS}gate"].numpy(), settings.model.power)
    spread = Spread(
        checkpoint["spread_mean"].numpy(), checkpoint["spread_covariance"].numpy(), int(checkpoint["spread_count"])
    )
    images = open_source(settings.data)
    assert isinstance(images, ImageFolder)
    encoder = build_encoder(settings)
    views = cached_features(
        FeatureRequest(encoder, images, settings.views, settings.head.views, settings.seed), settings.head.cache
    )
    return Trained(
        head, spread, checkpoint["classes"].numpy(), settings.head.trained or 0, settings.head.components, views,
        tuple(images.paths),
    )  # fmt: skip


def ship(
    name: str,
    run: Path,
    evidence: Path,
    labelled: Path,
    work: Path,
    out: Path,
    ranges: Path,
    *,
    version: str,
    evidence_data: str,
    labelled_data: str,
    chosen: Path | None = None,
    chosen_data: str = "",
    tick: Tick | None = None,
) -> Bundle:
    """Measure all that the manifest records, and write the bundle and the ranges of its int8 form.

    evidence, chosen: photos with wnids that check names, and further ones that names for other columns are chosen on.
    """
    plan, trained, view = PLANS[name], read_run(run), run_view(run)
    photos = Photos(Path(trained.paths[0]).parents[1], tuple(sorted(trained.paths)))
    write_parts(name, trained, photos, view, ranges, work)
    activations = collect(work / ENCODER, photos, view, work / "seen", tick=tick)
    names = named(plan.backbone, trained, find_photos(evidence), work, view, evidence_data, tick)
    if chosen is not None:
        names = with_chosen(names, chosen, evidence, work, view, chosen_data, tick)
    names.write(work / NAMES)
    manifest = Manifest(
        name=name,
        version=version,
        description=plan.description,
        dimensions=trained.head.dimensions,
        activation="p^0.6 where p = relu(sqrt(features) weight + bias) is above the gate",
        view=view,
        provenance=provenance(plan),
        columns=measure(activations.values).columns(np.arange(trained.head.dimensions)),
        precision="fp16",
        calibration=calibrated_on(activations, FITTED_ON, "nested"),
        golden=record(work / ENCODER, view.size),
        checks=checks_of(work / ENCODER, photos, view),
        head=HeadRecord(file=HEAD, spread=SPREAD, takes="roots", power=trained.head.power, trained=trained.trained),
        variants=(int8_variant(work, photos, view, tick),),
        names=record_of_names(names, evidence_data),
        files={},
    )
    by = find_photos(labelled)
    quality = evaluate(
        work / ENCODER, manifest, activations.values, activations.digests, by, work, data=labelled_data, tick=tick
    )
    files = {file: work / file for file in (ENCODER, INT8, HEAD, SPREAD, NAMES)}
    return write_bundle(out, manifest.model_copy(update={"quality": quality}), files)


def write_parts(name: str, trained: Trained, photos: Photos, view: Any, ranges: Path, work: Path) -> None:
    """Write both encoders, the ranges of int8, the head and what it was computed from."""
    ranges.unlink(missing_ok=True)
    save(restore_fp32(pooled(name)), work / "backbone.onnx")
    to_int8(work / "backbone.onnx", photos.every(FOR_RANGES).paths, view, ranges=ranges)
    write_encoders(name, trained.head, ranges, work)
    write_spread(trained.spread, work / SPREAD)


def checks_of(encoder: Path, photos: Photos, view: Any) -> tuple[Check, ...]:
    """Return what must hold of the encoder, on some of these photos."""
    photos = photos.every(FOR_JUDGING)
    return (
        ignores_batch_mates(open_session(encoder), samples(photos.paths, view)),
        preprocessing_checks.decodes_alike(open_session(encoder), view, photos.paths),
        preprocessing_checks.resizes_alike(open_session(encoder), view, photos.paths),
    )


def int8_variant(work: Path, photos: Photos, view: Any, tick: Tick | None) -> Variant:
    """Return the int8 form, with what it loses on some of these photos."""
    photos = photos.every(FOR_JUDGING)
    exact = collect(work / ENCODER, photos, view, work / "exact", tick=tick)
    rounded = collect(work / INT8, photos, view, work / "rounded", tick=tick)
    return Variant(
        precision="int8",
        file=INT8,
        golden=record(work / INT8, view.size, "int8").model_copy(update={"tolerance": TOLERANCE}),
        checks=(
            *as_checks(agreement(exact.values, rounded.values), LEAST_KEPT["int8"]),
            ignores_batch_mates(open_session(work / INT8, precision="int8"), samples(photos.paths, view)),
        ),
    )


def with_chosen(
    names: Names, chosen: Path, evidence: Path, work: Path, view: Any, data: str, tick: Tick | None
) -> Names:
    """Return these names and those of further columns, chosen on one folder of photos and checked on another."""
    choosing, checking = (
        collect(work / ENCODER, find_photos(folder), view, work / part, tick=tick)
        for folder, part in ((chosen, "choosing"), (evidence, "evidence"))
    )
    return completed(names, choosing, checking, class_labels(), chosen_data=data)


def run_view(run: Path) -> Any:
    """Return the one view that a run's encoder sees photos by."""
    return build_encoder(run_settings(run), pretrained=False).view


def named(network: str, trained: Trained, photos: Photos, work: Path, view: Any, data: str, tick: Tick | None) -> Names:
    """Return the names of the last columns, each with its evidence."""
    classes, first = trained.classes, trained.head.dimensions - len(trained.classes)
    classifier = open_backbone(network, small=False, pretrained="DEFAULT").classifier
    assert classifier is not None
    wnids = sorted({m[0] for path in trained.paths if (m := naming.WNID.match(path.name))})
    activations = collect(work / ENCODER, photos, view, work / "evidence", tick=tick)
    precise = naming.precisions(
        np.array(activations.values[:, first:]), naming.classes_of(activations.paths, wnids), classes
    )
    owned = naming.classes_of(trained.paths, wnids)
    ranks = naming.held_out_ranks(np.array(trained.views), owned, classes, classifier, trained.components, tick)
    return Names(
        dimensions=trained.head.dimensions,
        precision_on=data,
        rank_on="one photo of each class among the 1,000 of all, its column computed without it",
        names=naming.described(classes, class_labels(), first, faithfulness(trained, classifier), precise, ranks),
    )


def faithfulness(trained: Trained, classifier: Floats) -> Doubles:
    """Return the cosine of every named column with its class's own direction."""
    matrix = components(trained.spread, trained.components, EXPONENT).astype(np.float32)
    basis = Basis(trained.spread.mean.astype(np.float32), matrix, 1.0)
    pooled_mean = trained.spread.mean**2 + np.diag(trained.spread.covariance)  # the roots' mean square
    own = class_directions(basis, classifier, pooled_mean)[:, trained.classes]
    return np.asarray((polar(own) * own).sum(axis=0))


def fit(name: str, photos: Path, run: Path) -> Path:
    """Train the recipe of that name on the photos; the run's folder, as it is if it is there already."""
    if not (run / CHECKPOINT_FILE).is_file():
        recipe = Path(nonneg_training.__file__).parent / "recipes" / f"{name}.toml"
        # one thread: sums in one order, so that one machine repeats every bit
        train(read_settings(recipe, {"data.source": str(photos), "loop.threads": 1}), run)
    return run
