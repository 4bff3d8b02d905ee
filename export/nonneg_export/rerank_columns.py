"""An existing bundle, ranked by other photos: the graph is edited, nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nonneg_core.errors import ConfigInvalid
from nonneg_export.assemble import Draft, RankedDraft
from nonneg_export.graphs.fp16_weights import restore_fp32
from nonneg_export.texts.text_columns import columns_of
from nonneg_runtime.bundle import Bundle
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
        text=columns_of(bundle),
    )


def compose_order(ranked: RankedDraft, bundle: Bundle) -> RankedDraft:
    """Return the same, with each column traced back to the encoder's own, through both rankings."""
    before = bundle.manifest.columns.original
    columns = ranked.manifest.columns
    original = tuple(before[i] for i in columns.original)
    manifest = ranked.manifest.model_copy(update={"columns": columns.model_copy(update={"original": original})})
    return replace(ranked, manifest=manifest)


def overlaps(old: Sequence[int], new: Sequence[int]) -> list[Overlap]:
    """Compare old and new order at halving lengths."""
    lengths = [2**p for p in range(20, 2, -1) if 2**p < len(new)]
    return [Overlap(k, len(set(old[:k]) & set(new[:k])) / k) for k in lengths]
