"""An existing bundle, ranked by other photos: the graph is edited, nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nonneg_core.errors import ConfigInvalid
from nonneg_export.assemble import Draft, RankedDraft
from nonneg_export.graphs.fp16_weights import restore_fp32
from nonneg_export.reordered_words import carried_words
from nonneg_export.texts.text_columns import columns_of
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.manifest import Manifest
from nonneg_training.onnx_backbone.onnx_graph import load


@dataclass(frozen=True)
class Overlap:
    """How many of the old first k columns are still among the new first k."""

    dimensions: int
    share: float


def draft_of(bundle: Bundle) -> Draft:
    """Return a bundle's encoder as a draft: its present order is the one to start from."""
    manifest = bundle.manifest
    if manifest.precision == "bf16":
        raise ConfigInvalid(
            f"{bundle.path} is computed in bf16", fix="rank the bundle it was made from, then quantize", field="bundle"
        )
    return Draft(
        model=restore_fp32(load(bundle.encoder)),
        view=manifest.view,
        name=manifest.name,
        version=manifest.version,
        activation=manifest.activation,
        provenance=manifest.provenance,
        description=manifest.description,
        derived_from=manifest.fingerprint,
        precision=manifest.precision,
        nested=manifest.calibration.ranked_by == "nested",
        text=columns_of(bundle),
    )


def compose_order(ranked: RankedDraft, bundle: Bundle) -> RankedDraft:
    """Return the same with names and words where their columns went, each column traced back to the encoder's own."""
    before = bundle.manifest.columns.original
    columns = ranked.manifest.columns
    original = tuple(before[i] for i in columns.original)
    said = {
        "columns": columns.model_copy(update={"original": original}),
        **carried_words(bundle, columns.original, ranked.encoder.parent),
        **(_said_of_the_order(ranked, bundle) if columns.original != tuple(range(len(before))) else {}),
    }
    return replace(ranked, manifest=ranked.manifest.model_copy(update=said))


def _said_of_the_order(ranked: RankedDraft, bundle: Bundle) -> dict[str, Any]:
    """Return a description and a note that are true of columns in another order than the bundle's."""
    old, new = bundle.manifest, ranked.manifest
    rule = new.calibration.ranked_by
    note = f"{old.provenance.note}; its columns were put in another order since" if old.provenance.note else ""
    return {
        "description": f"{old.name} {old.version} with its columns ranked by {rule} on other photos",
        "provenance": old.provenance.model_copy(update={"note": note}),
    }


def left_out(old: Manifest, new: Manifest) -> list[str]:
    """Return in words what the first has and the second, ranked from it, has not."""
    forms = ", ".join(variant.precision for variant in old.variants)
    parts = {
        f"the form {forms}: `nonneg quantize` makes one": old.variants and not new.variants,
        "the head's own file, which `nonneg adapt` starts from": old.head and not new.head,
        "the words for search, which need all columns": old.lexicon and not new.lexicon,
        "the certificate: `nonneg certify` measures one": old.certificate and not new.certificate,
    }
    return [part for part, gone in parts.items() if gone]


def overlaps(old: Sequence[int], new: Sequence[int]) -> list[Overlap]:
    """Compare old and new order at halving lengths."""
    lengths = [2**p for p in range(20, 2, -1) if 2**p < len(new)]
    return [Overlap(k, len(set(old[:k]) & set(new[:k])) / k) for k in lengths]
