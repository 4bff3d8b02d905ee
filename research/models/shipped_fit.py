"""From a trained head to a model that is shipped: names with their evidence, an int8 form with its loss, quality.

Photos go through the backbone once and are kept; all figures are computed from what it answered.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import nonneg_training
from nonneg_core.arrays import Doubles, Floats, Numbers
from nonneg_export.assembly.quantized_bundle import to_int8
from nonneg_export.calibrate.activations import Activations, Origin, calibrated_on, collect
from nonneg_export.calibrate.column_ranking import measure
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks import preprocessing_checks
from nonneg_export.checks.agreement import agreement, as_checks
from nonneg_export.checks.encoder_checks import ignores_batch_mates, record, samples
from nonneg_export.checks.quality_report import evaluate
from nonneg_export.graphs.canonical import restore_fp32, save
from nonneg_runtime.bundle.bundle_folder import ENCODER, SHIPPED, Bundle, open_bundle, write_bundle
from nonneg_runtime.bundle.evidence import Check
from nonneg_runtime.bundle.head_file import HEAD, SPREAD, read_head, read_spread, write_spread
from nonneg_runtime.bundle.manifest import HeadRecord, LexiconRecord, Manifest, Variant
from nonneg_runtime.heads.analytic_head import EXPONENT, Basis, components, fit_basis, polar
from nonneg_runtime.heads.head import Head, class_directions, first, roots, taken, with_names
from nonneg_runtime.heads.moments import Spread
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.words.lexicon import LEXICON, lexicon_of
from nonneg_runtime.words.names import NAMES, Names, read_names
from nonneg_training.data import open_source
from nonneg_training.data.image_folder import ImageFolder
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_training.features.feature_cache import CachedFeatures, FeatureRequest, cached_features
from nonneg_training.loop.build_encoder import build_encoder
from nonneg_training.loop.training_checkpoint import CHECKPOINT_FILE, read_checkpoint, run_settings
from nonneg_training.loop.training_checkpoint import ENCODER as WEIGHTS
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import read_settings
from research.models import naming
from research.models.lexicon_words import relaid
from research.models.rebuild import FITTED_ON, INT8, PLANS, ModelPlan, class_labels, pooled, provenance, write_encoders
from research.models.shipped_names import record_of_names, with_common_words
from research.models.shown_classes import shown_classes

FOR_RANGES, FOR_JUDGING = 200, 1000
LEAST_KEPT = {"int8": 0.6}  # of the ten nearest neighbours
TOLERANCE = 0.98  # of int8's golden vector: processors round differently; one that saturates is far below
FITTED = "fitted"  # the part of the photos that a head is fitted on


@dataclass(frozen=True, eq=False)
class Trained:
    """A head, what it was computed from, and where its columns along classes stand."""

    head: Head
    spread: Spread
    classes: Numbers
    places: Numbers
    trained: int
    components: int
    views: CachedFeatures | None  # pooled, as it learnt from them; None: its ranks are those of the installed model
    paths: tuple[Path, ...]


class SeenPhotos:
    """What a model's backbone answers to photos, kept in a folder: a run that was interrupted goes on."""

    def __init__(self, name: str, view: Any, place: Path, tick: Tick | None = None) -> None:
        """Write the backbone in its exact form into `place`, unless it is there."""
        self.view, self.place, self._tick = view, place, tick
        self.ranges, self.exact = place / "ranges.json", place / "fp32.onnx"
        if not self.exact.is_file():
            save(restore_fp32(pooled(name)), self.exact)

    def rounded(self, photos: Photos) -> Path:
        """Return the backbone in int8, its ranges measured on some of the photos."""
        form = self.place / "int8.onnx"
        if not form.is_file():
            save(to_int8(self.exact, photos.every(FOR_RANGES).paths, self.view, ranges=self.ranges), form)
        return form

    def features(self, photos: Photos, part: str, encoder: Path | None = None) -> Activations:
        """Return the pooled features of photos; `part` names them."""
        form = encoder or self.exact
        return collect(form, photos, self.view, self.place / f"{part}.{form.stem}", tick=self._tick)

    def codes(self, head: Head, photos: Photos, part: str, encoder: Path | None = None) -> Activations:
        """Return the head's answers to photos."""
        seen = self.features(photos, part, encoder)
        return replace(seen, values=head.embed(roots(np.array(seen.values))))


def read_run(run: Path) -> Trained:
    """Return the head of a run, what it was computed from, and the cached features it learnt from."""
    settings, checkpoint = run_settings(run), read_checkpoint(run).tensors
    layer = {name: checkpoint[f"{WEIGHTS}output.{name}"].numpy() for name in ("weight", "bias")}
    head = Head(layer["weight"].T.copy(), layer["bias"], settings.model.power)
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
        head, spread, checkpoint["classes"].numpy(), checkpoint["places"].numpy(), settings.head.trained or 0,
        settings.head.components, views, tuple(images.paths),
    )  # fmt: skip


def with_installed_front(name: str, photos: Photos, seen: SeenPhotos) -> Trained:
    """Return the head in the present layout around the installed model's trained and named columns."""
    bundle = open_bundle(SHIPPED / name)
    record, dimensions = bundle.manifest.head, bundle.manifest.dimensions
    assert record is not None
    installed, of = read_head(bundle.path / HEAD), read_spread(bundle.path / SPREAD)
    along = [entry for entry in read_names(bundle.path / NAMES, dimensions).names if entry.klass is not None]
    rows = roots(np.array(seen.features(photos, FITTED).values))
    basis = fit_basis(rows, of)
    named = taken(installed, np.array([entry.dimension for entry in along]))
    head, places = with_names(first(installed, record.trained), basis, named, rows, dimensions)
    classes = np.array([entry.klass for entry in along])
    return Trained(head, of, classes, places, record.trained, basis.matrix.shape[1], None, tuple(sorted(photos.paths)))


@dataclass(frozen=True)
class Sets:
    """The folders that a model is measured on, each with what the manifest calls it."""

    evidence: Path  # photos with wnids, which check names
    labelled: Path
    evidence_data: str
    labelled_data: str


def ship(name: str, trained: Trained, seen: SeenPhotos, sets: Sets, out: Path, version: str) -> Bundle:
    """Measure all that the manifest records, and write the bundle."""
    plan, view = PLANS[name], seen.view
    photos = Photos(Path(trained.paths[0]).parents[1], tuple(sorted(trained.paths)))
    head = replace(trained.head, weight=trained.head.weight.astype(np.float16).astype(np.float32))  # as it is stored
    fitted = seen.codes(head, photos, FITTED)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        work = Path(place)
        seen.rounded(photos)
        write_encoders(name, head, seen.ranges, work)
        write_spread(trained.spread, work / SPREAD)
        names = named(plan, trained, head, seen, sets)
        names.write(work / NAMES)
        manifest = Manifest(
            name=name,
            version=version,
            description=plan.description,
            dimensions=head.dimensions,
            activation="relu(sqrt(features) weight + bias)^0.6",
            view=view,
            provenance=provenance(plan),
            columns=measure(fitted.values).columns(np.arange(head.dimensions)),
            precision="fp16",
            calibration=calibrated_on(fitted, FITTED_ON, "nested"),
            golden=record(work / ENCODER, view.size),
            checks=checks_of(work / ENCODER, photos, view),
            head=HeadRecord(file=HEAD, spread=SPREAD, takes="roots", power=head.power, trained=trained.trained),
            variants=(int8_variant(work, head, seen, photos, fitted),),
            names=record_of_names(names, names.precision_on),
            files={},
        )
        quality = evaluate(
            work / ENCODER,
            manifest,
            fitted.values,
            fitted.digests,
            find_photos(sets.labelled),
            seen.place,
            origin=Origin(seen.exact, lambda rows: head.embed(roots(rows))),
            data=sets.labelled_data,
        )
        words = None if trained.views is not None else relay_words(name, trained, head, work / LEXICON)
        manifest = manifest.model_copy(update={"quality": quality, "lexicon": words})
        files = (ENCODER, INT8, HEAD, SPREAD, NAMES) if words is None else (ENCODER, INT8, HEAD, SPREAD, NAMES, LEXICON)
        return write_bundle(out, manifest, {file: work / file for file in files})


def relay_words(name: str, trained: Trained, head: Head, path: Path) -> LexiconRecord | None:
    """Write the words of the installed model for this head; return what the manifest says of them."""
    installed = open_bundle(SHIPPED / name)
    lexicon = lexicon_of(installed)
    classifier = open_backbone(PLANS[name].backbone, small=False, pretrained="DEFAULT").classifier
    if lexicon is None or classifier is None:
        return None
    own = dict(zip(trained.classes.tolist(), trained.places.tolist(), strict=True))
    relaid(lexicon, head, trained.spread, classifier, own).write(path)
    return installed.manifest.lexicon


def checks_of(encoder: Path, photos: Photos, view: Any) -> tuple[Check, ...]:
    """Return what must hold of the encoder, on some of these photos."""
    photos = photos.every(FOR_JUDGING)
    return (
        ignores_batch_mates(open_session(encoder), samples(photos.paths, view)),
        preprocessing_checks.decodes_alike(open_session(encoder), view, photos.paths),
        preprocessing_checks.resizes_alike(open_session(encoder), view, photos.paths),
    )


def int8_variant(work: Path, head: Head, seen: SeenPhotos, photos: Photos, fitted: Activations) -> Variant:
    """Return the int8 form, with what it loses on some of these photos; `fitted`: what the exact one answered."""
    form, photos = seen.rounded(photos), photos.every(FOR_JUDGING)
    rounded = seen.codes(head, photos, "judged", form)
    place = {path: row for row, path in enumerate(fitted.paths)}
    exact = np.array(fitted.values)[[place[path] for path in rounded.paths]]
    return Variant(
        precision="int8",
        file=INT8,
        golden=record(work / INT8, seen.view.size, "int8").model_copy(update={"tolerance": TOLERANCE}),
        checks=(
            *as_checks(agreement(exact, rounded.values), LEAST_KEPT["int8"]),
            ignores_batch_mates(open_session(work / INT8, precision="int8"), samples(photos.paths, seen.view)),
        ),
    )


def run_view(run: Path) -> Any:
    """Return the one view that a run's encoder sees photos by."""
    return build_encoder(run_settings(run), pretrained=False).view


def named(plan: ModelPlan, trained: Trained, head: Head, seen: SeenPhotos, sets: Sets) -> Names:
    """Return the names of columns, each with its evidence."""
    classifier = open_backbone(plan.backbone, small=False, pretrained="DEFAULT").classifier
    assert classifier is not None
    evidence = seen.codes(head, find_photos(sets.evidence), "evidence")
    shown = shown_classes(evidence.paths)
    precise = naming.precisions(
        np.array(evidence.values)[shown.kept][:, trained.places], shown.of, trained.classes, shown.unclear
    )
    installed = None if trained.views is not None else read_names(SHIPPED / plan.name / NAMES, head.dimensions)
    names = Names(
        dimensions=head.dimensions,
        precision_on=sets.evidence_data,
        rank_on="one photo of each class among the 1,000 of all, its column computed without it",
        names=naming.described(
            trained.classes,
            class_labels(),
            trained.places,
            faithfulness(trained, classifier),
            precise,
            _ranks(trained, classifier, installed),
        ),
    )
    return with_common_words(names)


def _ranks(trained: Trained, classifier: Floats, installed: Names | None) -> dict[int, int]:
    """Return the rank of each class's photo: it does not depend on where its column stands."""
    if trained.views is None:
        assert installed is not None
        return {name.klass: name.rank for name in installed.names if name.klass is not None and name.rank}
    wnids = sorted({m[0] for path in trained.paths if (m := naming.WNID.match(path.name))})
    owned = naming.classes_of(trained.paths, wnids)
    return naming.held_out_ranks(np.array(trained.views), owned, trained.classes, classifier, trained.components)


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
