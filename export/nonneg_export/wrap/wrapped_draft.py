"""A wrapped encoder as a draft of a bundle, its features run once: what computes the head is what ranks its columns."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Flags
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_export.assembly.calibrate_and_seal import Draft, HeadFileOptions, RankedDraft
from nonneg_export.assembly.head_steps import EncoderWithHead, HeadSteps, behind
from nonneg_export.assembly.text_towers import TextEncoder, beside, check_width
from nonneg_export.calibrate.activations import Activations, Origin, collect
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks.agreement import held_out, shared_neighbours
from nonneg_export.checks.encoder_checks import answers, features_agree, samples
from nonneg_export.checks.preprocessing_checks import sees_as_original
from nonneg_export.graphs.canonical import is_lossless, save
from nonneg_export.share.model_card import NOT_STATED, About
from nonneg_export.wrap.tower import Tower
from nonneg_runtime.bundle.evidence import Check
from nonneg_runtime.bundle.manifest import Provenance, TextRecord
from nonneg_runtime.heads.feature_head import FittedHead
from nonneg_runtime.inference.onnx_session import Session

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
