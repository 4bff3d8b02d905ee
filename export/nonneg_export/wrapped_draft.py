"""A wrapped encoder as a draft of a bundle, its features run once: what computes the head is what ranks its columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.cores import available_cores
from nonneg_core.heads.from_features import FittedHead
from nonneg_export.about import NOT_STATED, About
from nonneg_export.activations import Activations, Tick, collect
from nonneg_export.assemble import Apart, Draft, RankedDraft
from nonneg_export.checks import verify
from nonneg_export.checks.kept_neighbours import held_out, kept
from nonneg_export.checks.preprocessing_checks import sees_as_original
from nonneg_export.graphs.canonical import save
from nonneg_export.graphs.fp16_weights import is_lossless
from nonneg_export.head_steps import Behind, HeadSteps, behind
from nonneg_export.origin_features import Origin
from nonneg_export.photo_folder import Photos
from nonneg_export.published.tower import Tower
from nonneg_export.texts.text_towers import TextEncoder, beside, check_width
from nonneg_runtime.evidence import Check
from nonneg_runtime.inference.session import Session
from nonneg_runtime.manifest import Provenance, TextRecord

FEATURES = "features.onnx"


@dataclass(frozen=True, eq=False)
class Wrapped:
    """An encoder's draft, and what its manifest will say of head and features."""

    draft: Draft
    behind: Behind
    features: Activations  # the encoder's own, of the calibration photos
    held: NDArray[np.bool_]  # photos that the head was not computed from
    text: TextEncoder | None = None

    @property
    def below_zero(self) -> float:
        """The share of the features' squares that lies below zero."""
        rows = np.asarray(self.features.values, dtype=np.float64)
        return float(np.square(np.minimum(rows, 0)).sum() / max(np.square(rows).sum(), np.finfo(np.float64).tiny))

    def described(self, ranked: RankedDraft, data: str) -> RankedDraft:
        """Return the ranked encoder with what its columns keep of the features, and with the text tower beside it."""
        place, order = ranked.encoder.parent, list(ranked.manifest.columns.original)
        found = kept(self.features.values[self.held], ranked.seen.values[self.held][:, order], data)
        said = {"kept": found, "text": self._words(place)}
        origin = Origin(place / FEATURES, lambda rows: self.behind.apply(rows)[:, order])
        return replace(ranked, manifest=ranked.manifest.model_copy(update=said), origin=origin)

    def _words(self, place: Path) -> TextRecord | None:
        """Return the text tower beside the encoder, where the model has one that its head fits."""
        fitted = self.behind.fitted
        if self.text is None or fitted is None or fitted.takes != "directions":
            return None
        return beside(self.text, np.asarray(self.features.values[~self.held]), place)


def draft(
    tower: Tower, how: HeadSteps, said: About, photos: Photos, place: Path, *, tick: Tick | None = None
) -> Wrapped:
    """Run the photos through the encoder, compute what comes behind it, and put both together."""
    if tower.text is not None:
        check_width(tower.text, tower.model)
    save(tower.model, place / FEATURES)
    seen = collect(place / FEATURES, photos, tower.view, place / "features", tick=tick)
    held = held_out(len(seen.paths))
    rest = behind(how, tower.model, np.asarray(seen.values[~held]))
    licence = said.weights_license if said.weights_license != NOT_STATED else tower.licence
    found = Draft(
        model=rest.model,
        view=tower.view,
        name=said.name,
        version=said.version,
        activation=rest.activation,
        description=f"{tower.weights}, wrapped",
        precision="fp16" if is_lossless(tower.model) else "fp32",
        nested=rest.fitted is not None,
        smooth=place / FEATURES if rest.fitted is not None else None,
        columns=rest.apply if rest.fitted is not None else None,
        head=_apart(rest.fitted),
        seen=replace(seen, values=rest.apply(np.asarray(seen.values))),
        checks=_as_the_original(tower, place / FEATURES, seen),
        provenance=Provenance(
            weights=tower.weights,
            weights_license=licence,
            data="not stated",
            data_license=said.data_license,
            fetched=tower.fetched,
        ),
    )
    return Wrapped(found, rest, seen, held, tower.text)


def _apart(fitted: FittedHead | None) -> Apart | None:
    """Return a computed head, whose weights go into a file of their own."""
    return None if fitted is None else Apart(fitted.head.power, fitted.takes, fitted.trained, fitted.spread)


def _as_the_original(tower: Tower, encoder: Path, seen: Activations) -> tuple[Check, ...]:
    """Check that photos are seen as the original sees them, and answered as it answers, where it is at hand."""
    seen_alike: tuple[Check, ...] = ()
    if tower.original_pixels is not None:
        seen_alike = (sees_as_original(tower.view, tower.original_pixels, seen.paths),)
    if tower.reference is None:
        return seen_alike
    pixels = verify.samples(seen.paths, tower.view)
    ours = verify.answers(Session(encoder, threads=available_cores()).run, pixels)
    return (
        *seen_alike,
        verify.features_agree(verify.answers(tower.reference, pixels), ours, f"{len(pixels) - 1} photos and a pattern"),
    )
