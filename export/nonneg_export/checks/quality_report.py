"""The quality report: retrieval by length and what the dimensions are like, on photos that the ranking did not use."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import ImageOps

from nonneg_core.arrays import Floats
from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.decode import decode
from nonneg_export.calibrate.activations import Activations, Origin, features_and_columns
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks.quality import LENGTHS, TOP_KS, as_they_are, quality_by_length, sampled_task
from nonneg_runtime.bundle.evidence import Quality, Selection, Structure
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.seeing.preprocess import Preprocessor
from nonneg_vectors.evaluation import structure
from nonneg_vectors.evaluation.retrieval import Order, as_emitted, by_chance, falling, fit_pca
from nonneg_vectors.evaluation.uncertainty import interval

K, NEIGHBOURS, SEEDS = 100, 20, 3
PAIRS = 512  # images in the estimate of SEPIN: each has so many - 1 negatives
DIGITS = 4


def evaluate(
    encoder: Path,
    manifest: Manifest,
    calibration: Floats,
    calibrated_on: tuple[str, ...],
    photos: Photos,
    work: Path,
    *,
    origin: Origin | None = None,
    data: str = "",
    tick: Tick | None = None,
) -> Quality:
    """Measure `encoder` on labelled photos; `calibration` are its activations on the calibration photos.

    origin: the features that the columns were made of, for a row to compare with.
    """
    activations, z = features_and_columns(encoder, origin, photos, manifest, work / "evaluation", tick)
    check_apart(activations, calibrated_on)
    labels = photos.labels(activations.paths)
    _, counts = np.unique(labels, return_counts=True)
    columns = manifest.dimensions
    orders: dict[Selection, list[Order]] = {
        "expected-activation": [as_emitted(columns)],
        "random": [by_chance(columns, seed) for seed in range(SEEDS)],
        "variance": [falling(manifest.columns.variance)],
    }
    task = sampled_task(z, labels)
    rows = quality_by_length(
        task, orders, pca=fit_pca(calibration), lengths=LENGTHS, top_ks=TOP_KS, k=K, neighbours=NEIGHBOURS
    )
    if origin is not None:
        features = sampled_task(np.array(activations.values), labels)
        rows.append(as_they_are(features, "features", k=K, neighbours=NEIGHBOURS))
    return Quality(
        data=data or photos.folder.name,
        images=len(z),
        classes=len(counts),
        lonely_classes=int((counts == 1).sum()),
        queries=len(task.gallery if task.queries is None else task.queries),
        k=K,
        neighbours=NEIGHBOURS,
        seeds=SEEDS,
        live_dimensions=structure.live_dimensions(z),
        structure=_structure(z, labels, _second_views(encoder, manifest, activations), activations),
        rows=tuple(row.model_copy(update={k: _short(v) for k, v in row}) for row in rows),
        method=f"PCA and variance are measured on the {len(calibration)} calibration images.",
    )


def _structure(z: Floats, labels: tuple[str, ...], second: Floats, activations: Activations) -> Structure:
    first = z[_sample(len(activations.paths))]
    consistent = structure.consistency(z, labels)
    lost = structure.sepin(structure.separate_information(first, second))
    sepin = {k: interval(values) for k, values in lost.items()}
    return Structure(
        sparsity=_short(structure.sparsity(z)),
        correlation=_short(structure.correlation(z)),
        consistency=_short(consistent.weighted),
        consistency_floor=_short(consistent.weighted_floor),
        consistency_unweighted=_short(consistent.unweighted),
        consistency_unweighted_floor=_short(consistent.unweighted_floor),
        sepin={k: _short(estimate.mean) for k, estimate in sepin.items()},
        sepin_estimator=f"nats, by the InfoNCE bound: temperature {structure.TEMPERATURE}, {len(first) - 1} negatives, "
        f"{len(first)} pairs of an image and its mirrored centre (80 %); the first k columns in the bundle's order",
        sepin_intervals={k: (_short(estimate.low), _short(estimate.high)) for k, estimate in sepin.items()},
    )


def _second_views(encoder: Path, manifest: Manifest, activations: Activations) -> Floats:
    """Return the mirrored centre of some of the images: the other half of each positive pair."""
    view, session = manifest.view, open_session(encoder, precision=manifest.precision)
    nearer = view.model_copy(update={"crop": view.crop * 0.8})
    preprocessor = Preprocessor(nearer)

    def look(path: Path) -> Floats:
        image = ImageOps.mirror(decode(path.read_bytes(), background=view.background, at_least=nearer.decode_side))
        return session.run(preprocessor.pixels(image)[None])  # (1, D)

    return np.concatenate([look(activations.paths[i]) for i in _sample(len(activations.paths))])


def _sample(images: int) -> list[int]:
    """Return images spread evenly over all."""
    return [i * images // PAIRS for i in range(PAIRS)] if images > PAIRS else list(range(images))


def check_apart(activations: Activations, calibrated_on: tuple[str, ...]) -> None:
    """Refuse evaluation images that were calibration images, too."""
    shared = set(activations.digests) & set(calibrated_on)
    if shared:
        raise DataInvalid(
            f"{len(shared)} of the {len(activations.digests)} evaluation images are also calibration images",
            fix="report quality on images that ranked nothing",
            field="evaluate",
            value=len(shared),
        )


def _short(value: Any) -> Any:
    """Return numbers at the precision that is reported."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
