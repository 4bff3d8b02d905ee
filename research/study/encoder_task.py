"""Train an encoder, unless a run of these settings is there, and measure what it is worth."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field, PositiveInt

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import keep_largest, unit
from nonneg_training.data import Images, open_source, unseen
from nonneg_training.data.named_data_sets import FACTORS
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.features.feature_cache import FeatureRequest, cached_features
from nonneg_training.loop.build_encoder import resolve
from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import load_encoder
from nonneg_training.loop.training_loop import RunOutcome
from nonneg_training.loop.training_run import resume, train
from nonneg_training.measure import probing
from nonneg_training.measure.encoder_outputs import (
    PAIRS,
    MirroredImages,
    Outputs,
    drawn,
    encode_images,
    head_rows,
    runner,
    untrained_head,
)
from nonneg_training.setup.process_group import ProcessGroup
from nonneg_training.setup.run_settings import SETTINGS_FILE as CONFIG
from nonneg_training.setup.run_settings import Data, RunSettings, Views, validate
from nonneg_vectors.evaluation.retrieval import SELECTIONS, falling
from nonneg_vectors.evaluation.structure import consistency, cut_columns
from research.study import robustness
from research.study.disentanglement import information_gap, matched_classes
from research.study.figure_names import encoder_figures
from research.study.plan import Record, merged
from research.study.task import Figures, Task, TaskSettings, checked

CODES = ("trained", "raw", "relu", "hidden", "official")
APART = ("data.root", "head.cache", "loop.threads", "loop.device")  # where and on what, not what


class Which(TaskSettings):
    """Images to measure on."""

    source: str
    limit: int | None = Field(default=None, ge=2)
    only: tuple[str, ...] = ()


class Measure(TaskSettings):
    """What is measured of each encoder."""

    ask: Which | None = None  # default: the data's test images
    teach: Which | None = None  # default: the images that were trained on
    structure: bool = True
    # trained; raw: before the activation; relu: raw, cut at zero; hidden: what the last layer sees; official: raw, its
    # columns by expected activation after the ReLU, as the authors' code probes them
    codes: tuple[str, ...] = ("trained",)
    cuts: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()  # consistency of each column's largest share of images
    matched: bool = False  # how well each class has one dimension
    lengths: tuple[PositiveInt, ...] = ()
    selections: tuple[str, ...] = ()
    keep: tuple[PositiveInt, ...] = ()  # so many of each vector's entries, the largest, before probe and neighbours
    transfer: tuple[Which, Which] | None = None  # images that teach and images that are asked, of another data set
    corruptions: bool = False
    shots: tuple[PositiveInt, ...] = ()  # labelled images a class that the probe learns from
    noise: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()  # share of wrong labels that the probe learns from
    factors: bool = False  # the gap of mutual information, where images were rendered from factors
    finetune: dict[str, Record] = Field(default_factory=dict)  # by name, supervised training that starts from here


class EncoderTask(Task):
    """Settings of training, as a run's config.toml has them."""

    def settle(self, record: Record, root: Path | None) -> Record:
        settings = _rooted(validate(record, "the study's settings"), root)
        return portable(resolve(settings, _images(settings.data), ProcessGroup()))

    def check_measure(self, record: Record) -> Record:
        spec = checked(Measure, record, "measure")
        _check_names("codes", spec.codes, CODES)
        _check_names("selections", spec.selections, SELECTIONS)
        for name, changes in spec.finetune.items():
            validate(_start(RunSettings(), None, changes), f"measure.finetune.{name}")
        return spec.model_dump(mode="json")

    def figures(self, measure: Record) -> frozenset[str]:
        return encoder_figures(Measure.model_validate(measure))

    def check_data(self, settings: Record, measure: Record, root: Path | None) -> None:
        setup, what = _rooted(validate(settings, "the study's settings"), root), Measure.model_validate(measure)
        images = _images(setup.data)
        test = _asked(setup.data, what, root)
        for side in (what.teach, *(what.transfer or ())):
            _which(side, root) if side is not None else None
        if what.factors and not test.factors(0):
            raise ConfigInvalid(
                f"{test.name} does not know its factors", fix="leave measure.factors out", field="measure.factors"
            )
        width = setup.model.dimensions
        if width and max(what.lengths, default=0) > width:
            raise ConfigInvalid(
                f"measure.lengths={max(what.lengths)} exceeds the encoder's {width} dimensions",
                fix=f"ask for at most {width}",
                field="measure.lengths",
                value=max(what.lengths),
                limit=width,
            )
        for name, changes in what.finetune.items():
            tuned = validate(_start(setup, None, changes), f"measure.finetune.{name}")
            resolve(tuned, images, ProcessGroup())

    def defaults(self) -> tuple[Record, Record]:
        return RunSettings().model_dump(mode="json"), Measure().model_dump(mode="json")

    def run(self, settings: Record, measure: Record, seed: int, work: Path, root: Path | None) -> Figures:
        setup = _rooted(validate({**settings, "seed": seed}, "the study"), root)
        what = Measure.model_validate(measure)
        run = trained_run(setup, work)
        figures = _by_epoch(run) | measured(run, setup, what, root)
        for name, changes in what.finetune.items():
            figures |= _finetuned(name, setup, run, changes, work)
        return figures


TASK = EncoderTask()


def trained_run(settings: RunSettings, work: Path) -> Path:
    """Return the folder of a finished run of these settings: found, gone on with, or made."""
    name = hashlib.sha256(json.dumps(portable(settings), sort_keys=True).encode()).hexdigest()[:16]
    run = work / f"{settings.method}-{settings.seed}-{name}"
    begun = (run / CONFIG).is_file() and (run / "checkpoint.safetensors").is_file()
    if not begun:
        shutil.rmtree(run, ignore_errors=True)
    outcome: RunOutcome = resume(run) if begun else train(settings, run)
    assert outcome.steps
    return run


def measured(run: Path, settings: RunSettings, what: Measure, root: Path | None) -> Figures:
    """Return all that is asked of one encoder."""
    encoder, seed, data = load_encoder(run), settings.seed, settings.data
    rows = runner(encoder, seed=seed)
    look = partial(encode_images, rows, view=encoder.view)
    if settings.method == "head" or settings.model.frozen:
        look = partial(encode_cached, encoder, views=settings.views, seed=seed)
    test = _asked(data, what, root)
    teach = _images(data) if what.teach is None else _which(what.teach, root)
    tested, taught = look(images=test), look(images=teach, seconds=False)
    figures = _structure(tested) if what.structure else {}
    for share in what.cuts:
        counts = np.full(tested.z.shape[1], max(1, round(share * len(tested.z))))
        largest = cut_columns(unit(tested.z), counts)
        figures[f"cut.{share:g}.consistency"] = consistency(largest, tested.labels).weighted
    if what.matched:
        figures["matched.dimensions"] = matched_classes(unit(tested.z), tested.labels)
    figures |= _probes(taught, tested, what, seed)
    if what.transfer is not None:
        sides = [look(images=_which(side, root), seconds=False) for side in what.transfer]
        figures |= {f"transfer.{name}": value for name, value in _probes(sides[0], sides[1], what, seed).items()}
    if what.corruptions:
        figures |= robustness.corrupted(rows, test, encoder.view, taught)
    if what.factors:
        figures |= _gaps(tested, test)
    figures |= robustness.few_shots(taught, tested, what.shots, seed)
    figures |= robustness.noisy_labels(taught, tested, what.noise, seed)
    return figures


def _structure(outputs: Outputs) -> Figures:
    report = outputs.structure().record()
    figures: Figures = {}
    for side, before in (("measured", "structure"), ("shuffled", "floor.shuffled"), ("rotated", "floor.rotated")):
        figures |= _named(report[side], before)
    if report["untrained"] is not None:
        figures |= _named(report["untrained"], "floor.untrained")
    return figures


def _named(record: dict[str, Any], before: str) -> Figures:
    values = {name: value for name, value in record.items() if not name.startswith("sepin")}
    values |= {f"sepin.{k}": value for k, value in (record["sepin"] or {}).items()}
    return {f"{before}.{name}": value for name, value in values.items()}


def _gaps(outputs: Outputs, images: Images) -> Figures:
    factors = np.array([images.factors(i) for i in outputs.order])
    gaps = information_gap(outputs.z, factors)
    named = {f"factors.gap.{name}": float(gap) for name, gap in zip(FACTORS, gaps, strict=True)}
    return {"factors.gap": float(gaps.mean()), **named}


def _probes(taught: Outputs, tested: Outputs, what: Measure, seed: int) -> Figures:
    labels = (taught.labels, tested.labels)
    figures: Figures = {}
    if taught.features is not None and tested.features is not None:
        figures |= _figures("backbone", probing.probe_rows((taught.features, tested.features), labels))
    for codes in what.codes:
        pair = _pair(taught, tested, codes)
        probes = probing.probe_rows(pair, labels, lengths=what.lengths, selections=what.selections, seed=seed)
        figures |= _figures("embedding" if codes == "trained" else codes, probes)
    for k in what.keep:
        largest = tuple(keep_largest(z, k) if k < z.shape[1] else z for z in (taught.z, tested.z))
        figures |= _figures(f"top.{k}", probing.probe_rows((largest[0], largest[1]), labels))
        figures[f"top.{k}.nnz"] = float((largest[1] != 0).sum(axis=1).mean())
    return figures


def _figures(before: str, probes: list[probing.ProbeResult]) -> Figures:
    figures: Figures = {}
    for row in probes:
        place = before if row.selection == "all" else f"{before}.{row.selection}.{row.dimensions}"
        values = {k: v for k, v in row.record().items() if k not in ("selection", "dimensions")}
        figures |= {f"{place}.{name}": value for name, value in values.items()}
    return figures


def _pair(taught: Outputs, tested: Outputs, name: str) -> tuple[Floats, Floats]:
    """Return the codes of that name, of the images that teach and of those that are asked."""
    if name == "trained":
        return taught.z, tested.z
    if name == "hidden":
        return np.asarray(taught.hidden), np.asarray(tested.hidden)
    raw = np.asarray(taught.raw), np.asarray(tested.raw)
    if name == "raw":
        return raw
    relu = np.maximum(raw[0], 0), np.maximum(raw[1], 0)
    if name == "relu":
        return relu
    order = falling(unit(relu[0]).mean(axis=0))
    return raw[0][:, order], raw[1][:, order]


def _finetuned(name: str, settings: RunSettings, run: Path, changes: Record, work: Path) -> Figures:
    """Train supervised, starting from the run's backbone: test accuracy by epoch."""
    tuned = trained_run(validate(_start(settings, run, changes), f"measure.finetune.{name}"), work)
    accuracy = _series(tuned, "test_accuracy")
    return {f"finetune.{name}": accuracy[-1] if accuracy else None, f"finetune.{name}.by_epoch": accuracy}


def _start(settings: RunSettings, run: Path | None, changes: Record) -> Record:
    """Return the settings of supervised training that starts from a run's backbone."""
    pretrained = None if run is None else str(run)
    start = {"model": {"pretrained": pretrained, "activation": None, "hidden": None, "batch_norm": False}}
    return merged(merged({**settings.model_dump(mode="json"), "method": "ce"}, start), changes)


def _by_epoch(run: Path) -> Figures:
    """Return what metrics.csv has seen: neighbours and accuracy by epoch, the last loss, the time of a step."""
    rows = read_metrics(run)
    figures: Figures = {"train.loss": float(rows[-1]["loss"])}
    for name in ("knn", "test_accuracy", "nnz", "live"):
        series = _series(run, name)
        if series:
            early = {share: series[max(0, round(len(series) / share) - 1)] for share in (4, 8)}
            figures |= {
                f"train.{name}": series[-1],
                f"train.{name}.at_quarter": early[4],
                f"train.{name}.at_eighth": early[8],
                f"train.{name}.by_epoch": series,
            }
    speeds = [float(row["images_per_second"]) for row in rows]
    figures["train.images_per_second"] = float(np.median(speeds))
    return figures


def _series(run: Path, column: str) -> list[float]:
    return [float(row[column]) for row in read_metrics(run) if row.get(column)]


@lru_cache(maxsize=8)
def _open(data: Data) -> Images:
    images = open_source(data)
    if not isinstance(images, Images):
        raise ConfigInvalid(
            f"data.source={data.source} is a stream, and a study reads its images again",
            fix="name a folder or a data set",
            field="data.source",
            value=data.source,
        )
    return images


def _images(data: Data) -> Images:
    return _open(data)


def _asked(data: Data, what: Measure, root: Path | None) -> Images:
    """Return the images to measure on."""
    test = unseen(data) if what.ask is None else _which(what.ask, root)
    if test is None:
        raise ConfigInvalid(f"{data.source} has no test images", fix="say which in [measure]: ask = {source = ...}")
    return test


def _check_names(field: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigInvalid(
            f"measure.{field}={unknown[0]} is not known",
            fix=f"choose of {', '.join(known)}",
            field=f"measure.{field}",
            value=unknown[0],
        )


def _which(which: Which, root: Path | None) -> Images:
    return _images(Data(source=which.source, root=root, limit=which.limit, only=which.only))


def _rooted(settings: RunSettings, root: Path | None) -> RunSettings:
    return settings.model_copy(update={"data": settings.data.model_copy(update={"root": root})})


def portable(settings: RunSettings) -> Record:
    """Return what a run depends on: not where its data lie, nor the seed, which is named beside it."""
    record = settings.model_dump(mode="json")
    for name in APART:
        section, _, key = name.partition(".")
        record[section].pop(key)
    return record


@torch.inference_mode()
def encode_cached(
    encoder: EncoderModule, images: Images, views: Views, *, seed: int = 0, seconds: bool = True
) -> Outputs:
    """Do as `encode_images` does, with the backbone's features from the cache: many projectors share them."""
    order, fresh = drawn(images), untrained_head(encoder.eval(), seed=seed)

    def rows_of(which: Images, numbers: Sequence[int]) -> dict[str, Floats]:
        pooled = cached_features(FeatureRequest(encoder, which, views, random=0, seed=0))[0, numbers]
        return head_rows(encoder, fresh, torch.from_numpy(pooled))

    rows = rows_of(images, order)
    second = MirroredImages(images, np.asarray(order[:PAIRS]))
    other = rows_of(second, range(len(second))) if seconds and len(order) > 3 else {}
    return Outputs(
        z=rows["z"],
        labels=images.labels[order],
        features=rows["features"],
        hidden=rows["hidden"],
        raw=rows["raw"],
        second=other.get("z"),
        untrained=(rows["untrained"], other.get("untrained")),
        order=tuple(order),
    )
