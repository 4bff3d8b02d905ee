"""A wrapped encoder as a draft of a bundle, its features run once: what computes the head is what ranks its columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.cores import available_cores
from nonneg_export import verify
from nonneg_export.about import NOT_STATED, About
from nonneg_export.activations import Activations, Tick, collect
from nonneg_export.assemble import Draft, RankedDraft
from nonneg_export.canonical import save
from nonneg_export.fp16_weights import is_lossless
from nonneg_export.kept import held_out, kept
from nonneg_export.photo_folder import Photos
from nonneg_export.published.tower import Tower
from nonneg_export.root_head import detach_head
from nonneg_export.text_towers import TextEncoder, beside
from nonneg_export.wrapping import Behind, Steps, behind
from nonneg_runtime.evidence import Check
from nonneg_runtime.head_file import HEAD, SPREAD, metadata_of, write_spread
from nonneg_runtime.manifest import HeadRecord, Provenance, TextRecord
from nonneg_runtime.session import Session
from nonneg_training.onnx_backbone.onnx_graph import load

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
        """The ranked encoder with its head in a file of its own, and with what the columns keep of the features."""
        place, order = ranked.encoder.parent, list(ranked.manifest.columns.original)
        found = kept(self.features.values[self.held], ranked.seen.values[self.held][:, order], data)
        head = self._detached(ranked.encoder)
        said = {"kept": found, "head": head, "text": self._words(place)}
        return replace(ranked, manifest=ranked.manifest.model_copy(update=said), features=place / FEATURES)

    def _words(self, place: Path) -> TextRecord | None:
        """The text tower beside the encoder, where the model has one that its head fits."""
        fitted = self.behind.fitted
        if self.text is None or fitted is None or fitted.takes != "directions":
            return None
        return beside(self.text, np.asarray(self.features.values[~self.held]), place)

    def _detached(self, encoder: Path) -> HeadRecord | None:
        fitted = self.behind.fitted
        if fitted is None:
            return None
        model = load(encoder)
        detach_head(model, encoder.parent, metadata_of(fitted.head))
        save(model, encoder)
        write_spread(fitted.spread, encoder.parent / SPREAD)
        return HeadRecord(file=HEAD, spread=SPREAD, takes=fitted.takes, power=fitted.head.power)


def draft(tower: Tower, how: Steps, said: About, photos: Photos, place: Path, *, tick: Tick | None = None) -> Wrapped:
    """Run the photos through the encoder, compute what comes behind it, and put both together."""
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
        seen=replace(seen, values=rest.apply(np.asarray(seen.values))),
        checks=_as_the_original(tower, place / FEATURES, seen),
        provenance=Provenance(
            weights=tower.weights, weights_license=licence, data="not stated", data_license=said.data_license
        ),
    )
    return Wrapped(found, rest, seen, held, tower.text)


def _as_the_original(tower: Tower, encoder: Path, seen: Activations) -> tuple[Check, ...]:
    """That the features are what the original answers to the same photos, where it is at hand."""
    if tower.reference is None:
        return ()
    pixels = verify.samples(seen.paths, tower.view)
    ours = verify.answers(Session(encoder, threads=available_cores()).run, pixels)
    return (
        verify.features_agree(verify.answers(tower.reference, pixels), ours, f"{len(pixels) - 1} photos and a pattern"),
    )
