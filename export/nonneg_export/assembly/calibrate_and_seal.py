"""From an encoder as ONNX to a bundle: calibrate, rank, verify, describe, seal."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from onnx import ModelProto

from nonneg_core.arrays import Floats, Numbers, Rows
from nonneg_core.pixels.view import Pixels, View
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.shortening import check_dimensions
from nonneg_export.assembly.text_towers import TextEncoder, in_order
from nonneg_export.calibrate.activations import Activations, Origin, calibrated_on, collect
from nonneg_export.calibrate.column_ranking import Rule, measure, ranking
from nonneg_export.calibrate.photo_folder import Photos, load_pixels
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks import encoder_checks, preprocessing_checks
from nonneg_export.checks.quality_report import evaluate
from nonneg_export.graphs.canonical import canonical, save, store_fp16
from nonneg_export.graphs.columns import select_columns, width
from nonneg_export.graphs.head_layers import detach_head
from nonneg_export.share.manifest_report import draw, recall
from nonneg_export.share.manifest_report import quality as quality_text
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle, write_bundle
from nonneg_runtime.bundle.evidence import Check, Golden
from nonneg_runtime.bundle.head_file import HEAD, SPREAD, metadata, write_spread
from nonneg_runtime.bundle.manifest import HeadRecord, Manifest, Precision, Provenance
from nonneg_runtime.heads.feature_head import Takes
from nonneg_runtime.heads.moments import Spread
from nonneg_runtime.inference.onnx_session import Session

MOST_FOR_PCA = 20_000  # calibration images: more would not turn the axes any further
Reference = Callable[[Pixels], Floats]
SmoothToColumns = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class HeadFileOptions:
    """A head whose weights go into a file of their own beside the graph."""

    power: float
    takes: Takes
    trained: int  # columns in front, in the order of training
    spread: Spread | None  # what it was computed from

    def detach(self, model: ModelProto, place: Path, order: Numbers) -> HeadRecord:
        """Move the weights, whose columns stand in this order, out of the graph."""
        detach_head(model, place, metadata(self.power))
        if self.spread is not None:
            write_spread(self.spread, place / SPREAD)
        spread = "" if self.spread is None else SPREAD
        computed = np.flatnonzero(order >= self.trained)
        trained = int(computed[0]) if len(computed) else len(order)
        return HeadRecord(file=HEAD, spread=spread, takes=self.takes, power=self.power, trained=trained)


@dataclass(frozen=True)
class Draft:
    """An encoder that is not a bundle yet: columns in their own order."""

    model: ModelProto
    view: View
    name: str
    version: str
    activation: str
    provenance: Provenance
    description: str = ""
    derived_from: str = ""
    precision: Precision = "fp32"
    nested: bool = False  # trained so that its own order is already the best
    head: HeadFileOptions | None = field(default=None, repr=False)
    activations: Activations | None = field(
        default=None, repr=False
    )  # what it answers to the calibration photos, if known
    smooth: Path | None = None  # the encoder before a gate, which jumps: what small changes of the pixels are judged by
    columns: SmoothToColumns | None = field(default=None, repr=False)  # what becomes of the answers of `smooth`
    checks: tuple[Check, ...] = ()  # that held already
    reference: Reference | None = field(default=None, repr=False)  # what torch answers to the same pixels
    evaluation: Callable[[Path], Pixels] | None = field(default=None, repr=False)  # what training's evaluation sees
    text: TextEncoder | None = field(default=None, repr=False)  # a second tower with columns of the same meaning


@dataclass(frozen=True)
class RankedDraft:
    """An encoder whose columns stand in rank order, with the manifest that says why; not sealed yet."""

    encoder: Path
    manifest: Manifest
    activations: Activations
    origin: Origin | None = None  # the features that the columns were made of


def rank(
    draft: Draft,
    photos: Photos,
    work: Path,
    *,
    rule: Rule = "expected-activation",
    dimensions: int | None = None,
    data: str = "",
    tick: Tick | None = None,
) -> RankedDraft:
    """Calibrate `draft` on `photos`, permute its columns, verify what came out."""
    length = check_dimensions(dimensions, width(draft.model))
    encoder = work / ENCODER
    activations = draft.activations or collect(_plain(draft, work), photos, draft.view, work / "activations", tick=tick)
    statistics = measure(activations.values)
    order = ranking(statistics, rule)[:length]
    chosen = _chosen(draft, order)
    head = None if draft.head is None else draft.head.detach(chosen, work, order)
    save(chosen, encoder)
    recorded, checks = _verify(draft, order, activations, work)
    manifest = Manifest(
        name=draft.name,
        version=draft.version,
        description=draft.description,
        dimensions=length,
        activation=draft.activation,
        derived_from=draft.derived_from,
        precision=draft.precision,
        view=draft.view,
        provenance=draft.provenance,
        columns=statistics.columns(order),
        calibration=calibrated_on(activations, data or photos.folder.name, rule),
        golden=recorded,
        checks=checks,
        head=head,
        text=None if draft.text is None else in_order(draft.text, order, work),
        files={},
    )
    return RankedDraft(encoder, manifest, activations)


def report(ranked: RankedDraft, photos: Photos, work: Path, *, data: str = "", tick: Tick | None = None) -> RankedDraft:
    """Add its quality on labelled photos to the manifest."""
    order = list(ranked.manifest.columns.original)
    calibration = np.ascontiguousarray(ranked.activations.values[:MOST_FOR_PCA][:, order])
    quality = evaluate(
        ranked.encoder,
        ranked.manifest,
        calibration,
        ranked.activations.digests,
        photos,
        work,
        origin=ranked.origin,
        data=data,
        tick=tick,
    )
    return replace(ranked, manifest=ranked.manifest.model_copy(update={"quality": quality}))


class SealableEncoder(Protocol):
    """An encoder with all that its manifest has to say."""

    @property
    def encoder(self) -> Path: ...

    @property
    def manifest(self) -> Manifest: ...


def seal(made: SealableEncoder, out: Path, *, overwrite: bool = False) -> Bundle:
    """Write the bundle, whole or not at all; with a quality report also its table and plots."""
    work = made.encoder.parent
    parts, head, text = (made.manifest.names, made.manifest.lexicon), made.manifest.head, made.manifest.text
    sentences = made.manifest.sentences
    files = {
        ENCODER: made.encoder,
        **evidence(made.manifest, work),
        **{part.file: work / part.file for part in parts if part},
        **({name: work / name for name in (head.file, head.spread) if name} if head else {}),
        **({name: work / name for name in (text.file, text.tokenizer)} if text else {}),
        **({name: work / name for name in (sentences.file, sentences.head)} if sentences else {}),
    }
    return write_bundle(out, made.manifest, files, replace=overwrite)


def evidence(manifest: Manifest, work: Path) -> dict[str, Path]:
    """Return the quality report as a table, and as plots where it has classes; nothing without a report."""
    text = manifest.text
    parts = [quality_text(manifest, manifest.quality)] if manifest.quality is not None else []
    parts += [recall(text)] if text is not None and text.recall else []
    if not parts:
        return {}
    table = work / "quality.md"
    table.write_text("\n\n".join([f"# {manifest.name}: quality by length", *parts]) + "\n", encoding="utf-8")
    if manifest.quality is None:
        return {table.name: table}
    plots = {name: work / name for name in ("quality.png", "quality.svg")}
    for path in plots.values():
        draw(manifest, path)
    return {table.name: table, **plots}


def _chosen(draft: Draft, order: Numbers) -> ModelProto:
    """Return the encoder with these columns, its weights stored as the draft's were."""
    chosen = select_columns(draft.model, order)
    return store_fp16(chosen) if draft.precision == "fp16" else canonical(chosen)


def _plain(draft: Draft, work: Path) -> Path:
    """Return the draft's encoder as a file."""
    save(draft.model, work / "plain.onnx")
    return work / "plain.onnx"


def _verify(draft: Draft, order: Numbers, activations: Activations, work: Path) -> tuple[Golden, tuple[Check, ...]]:
    """Open one session at a time, on all cores: each holds the weights once more, and what its largest batch needed."""
    pixels = encoder_checks.samples(activations.paths, draft.view)
    few = pixels[-encoder_checks.BATCH :]
    opened = partial(Session, threads=available_cores())

    def short(k: int) -> Rows:
        save(_chosen(draft, order[:k]), work / "short.onnx")
        return opened(work / "short.onnx").run(few)

    def in_full(path: Path) -> Pixels:
        return load_pixels(path, draft.view, exact=True)[0]

    full = opened(work / ENCODER)
    ranked = encoder_checks.answers(full.run, pixels)
    alike = encoder_checks.ignores_batch_mates(full, pixels, ranked)
    if draft.smooth is not None:
        del full
        full = opened(draft.smooth)
    once = encoder_checks.CachedRunner(full)
    fast = preprocessing_checks.decodes_alike(once, draft.view, activations.paths)
    resized = preprocessing_checks.resizes_alike(once, draft.view, activations.paths)
    if draft.columns is not None:
        chosen = encoder_checks.computes_the_head(
            draft.columns(encoder_checks.answers(full.run, pixels))[:, order], ranked
        )
    del full, once
    if draft.columns is None:
        chosen = encoder_checks.emits_the_ranking(
            encoder_checks.answers(opened(_plain(draft, work)).run, pixels), ranked, order
        )
    read_back = View.model_validate_json(draft.view.model_dump_json())
    checks = [
        alike,
        chosen,
        encoder_checks.prefix_is_export(ranked[-encoder_checks.BATCH :], short),
        preprocessing_checks.sees_alike(read_back, draft.evaluation or in_full, activations.paths),
        fast,
        resized,
    ]
    if draft.reference is not None:
        by_torch = encoder_checks.answers(draft.reference, pixels)
        checks.insert(0, encoder_checks.agrees_with_torch(by_torch[:, order], ranked))
    return encoder_checks.recorded(ranked[-1]), (*draft.checks, *checks)
