"""A run, from its settings to its folder: open the data, build what learns, claim the folder, loop."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from nonneg_core.errors import ConfigInvalid, StorageFailed
from nonneg_core.process.cores_and_allocator import tune_for_training
from nonneg_core.terminal.progress import ProgressBar
from nonneg_training.data import Captions, Images, SampledImages, ShardStream, open_source, unseen
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.features.feature_cache import CachedFeatures, FeatureRequest, cached_features
from nonneg_training.loop import training_checkpoint
from nonneg_training.loop.batches import Batches, CaptionBatches, FeatureBatches, StreamBatches, ViewBatches
from nonneg_training.loop.build_encoder import build_encoder, pretrained_run, resolve, stem_report
from nonneg_training.loop.events import Callback, open_loggers
from nonneg_training.loop.run_health import embed, embed_cached
from nonneg_training.loop.training_loop import Loop, RunOutcome
from nonneg_training.methods import Method, build_method, head_start
from nonneg_training.setup.batch_order import derive, generator
from nonneg_training.setup.process_group import ProcessGroup, barrier, join, leave
from nonneg_training.setup.run_settings import SETTINGS_FILE as CONFIG
from nonneg_training.setup.run_settings import Data, RunSettings, write_settings
from nonneg_training.views import cutter_for, pipeline_for


def train(
    settings: RunSettings,
    run: str | os.PathLike[str],
    *,
    data: Images | ShardStream | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
) -> RunOutcome:
    """Train as `settings` says into the folder `run`, or go on with the interrupted run of the same that it holds.

    data: images of your own (`nonneg_training.data.Arrays`, or another `Images`), in place of `settings.data`.
    callbacks: functions that are called with each event; an exception in one ends the run at its last checkpoint.
    """
    run = Path(run)
    if data is not None:
        settings = settings.model_copy(update={"data": Data(source=data.name)})
    begun = (run / training_checkpoint.CHECKPOINT_FILE).exists()
    checkpoint = training_checkpoint.read_checkpoint(run) if begun else None
    world = join()
    try:
        images = open_source(settings.data) if data is None else data
        outcome = prepare(settings, run, images, checkpoint, world, callbacks).run(progress)
    except BaseException:
        leave(together=False)  # the others may wait for us elsewhere: they hear at once that we are gone
        raise
    leave()
    return replace(outcome, broken=dict(images.broken))


def resume(run: Path, *, progress: bool | None = None) -> RunOutcome:
    """Go on with the run in the folder `run`: it ends as if it had never stopped."""
    return train(training_checkpoint.run_settings(run), run, progress=progress)


def prepare(
    settings: RunSettings,
    run: Path,
    images: Images | ShardStream,
    checkpoint: training_checkpoint.Checkpoint | None = None,
    world: ProcessGroup | None = None,
    callbacks: Sequence[Callback] = (),
) -> Loop:
    """Return everything but the steps; the folder is ours from here on."""
    world = world or ProcessGroup()
    if settings.loop.threads:
        torch.set_num_threads(settings.loop.threads)
    tune_for_training()
    device = choose_device(settings.loop.device)
    given, settings = settings, resolve(settings, images, world)
    if world.first and (report := stem_report(given, settings)):
        sys.stderr.write(f"{report}\n")
    torch.manual_seed(derive(settings.seed, "weights"))
    encoder = build_encoder(settings)
    if earlier := pretrained_run(settings):
        training_checkpoint.load_backbone(encoder, earlier)
    encoder.to(device)
    watched = None if isinstance(images, ShardStream) else unseen(settings.data)
    method, batches, look = _learner(settings, encoder, images, watched, world, device)
    torch.nn.Module.to(method, device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if world.size > 1 and device.type == "cuda":
        method = torch.nn.SyncBatchNorm.convert_sync_batchnorm(method)  # type: ignore[no-untyped-call]
    if world.first and not (run / CONFIG).exists():
        write_settings(run / CONFIG, settings)
    elif (run / CONFIG).exists():
        _check_same(run, settings)
    barrier()
    tested = watched is not None and watched.classes == images.classes
    listeners = [*(open_loggers(settings, run) if world.first else ()), *callbacks]
    return Loop(
        settings, run, method, batches, look, world=world, checkpoint=checkpoint, tested=tested, callbacks=listeners
    )


def _check_same(run: Path, settings: RunSettings) -> None:
    """Refuse to go on with a run of other settings, or by other code of a plug-in."""
    begun = training_checkpoint.run_settings(run)
    if begun == settings:
        return
    if begun == settings.model_copy(update={"plugins": begun.plugins}):
        changed = ", ".join(sorted(set(begun.plugins) ^ set(settings.plugins)))
        raise StorageFailed(
            f"{run} began with another file of a plug-in: {changed}",
            fix="put that file back, or choose another --out",
            value=str(run),
        )
    raise StorageFailed(
        f"{run} holds a run already, of other settings",
        fix="remove it, choose another --out, or pass --resume",
        value=str(run),
    )


Look = Callable[[], tuple[Tensor, Tensor]]


def _learner(
    settings: RunSettings,
    encoder: EncoderModule,
    images: Images | ShardStream,
    watched: Images | None,
    world: ProcessGroup,
    device: torch.device,
) -> tuple[Method, Batches, Look]:
    """Return the method, what feeds it, and what a reading looks at."""
    method = None if settings.method == "head" else build_method(settings, encoder, images)
    if method is not None and settings.model.frozen:
        assert isinstance(images, Images)
        return _frozen(settings, encoder, method, images, watched, world, device)
    if isinstance(images, ShardStream):
        assert method is not None
        cutter = cutter_for(settings.views, encoder.view.size, device)
        batches = StreamBatches(images, cutter, method.views, settings.seed, world)
        return method, batches, _first_of(images, encoder, settings.loop.monitor_images)
    if method is None:
        return _head(settings, encoder, images, world, device)
    pipeline = pipeline_for(images, settings.views, encoder.view.size, device)
    look = partial(embed, encoder, watched or images, settings.loop.monitor_images)
    if isinstance(images, Captions) and settings.method == "two-tower":
        return method, CaptionBatches(images, pipeline, settings.text.length), look
    return method, ViewBatches(images, pipeline, method.views), look


def _first_of(stream: ShardStream, encoder: EncoderModule, most: int) -> Look:
    """Look at the first images of a stream, fetched when the first reading is due."""
    images: list[SampledImages] = []

    def look() -> tuple[Tensor, Tensor]:
        if not images:
            images.append(stream.first(most))
        return embed(encoder, images[0], most)

    return look


def _frozen(
    settings: RunSettings,
    encoder: EncoderModule,
    method: Method,
    images: Images,
    watched: Images | None,
    world: ProcessGroup,
    device: torch.device,
) -> tuple[Method, Batches, Look]:
    """Feed a method with cached features, of test images as well: what does not change is computed once."""
    encoder.backbone.requires_grad_(False)
    pooled = _cached(settings, encoder, images, world, settings.head.views)
    encoder.standardise(torch.from_numpy(head_start.every_view(pooled)))
    batches = FeatureBatches(images, pooled, method.views, device, by_class=settings.head.labels > 0)
    if watched is None:
        return method, batches, partial(embed_cached, encoder, pooled, batches.labels, settings.loop.monitor_images)
    test = _cached(settings, encoder, watched, world, 0)
    labels = torch.from_numpy(watched.labels)
    return method, batches, partial(embed_cached, encoder, test, labels, settings.loop.monitor_images)


def _cached(
    settings: RunSettings, encoder: EncoderModule, images: Images, world: ProcessGroup, views: int
) -> CachedFeatures:
    head = settings.head
    seed = settings.seed if head.views_seed is None else head.views_seed
    request = FeatureRequest(encoder, images, settings.views, views, seed)
    with ProgressBar("caching features", len(images), shown=None if world.first else False) as bar:
        return cached_features(request, head.cache, tick=bar.move)


def _head(
    settings: RunSettings, encoder: EncoderModule, images: Images, world: ProcessGroup, device: torch.device
) -> tuple[Method, Batches, Look]:
    """Cache the features, start the head from them."""
    head = settings.head
    pooled = _cached(settings, encoder, images, world, head.views)
    each_taught = (
        _cached(settings, each.to(device), images, world, head.views) for each in head_start.teachers(settings)
    )
    taught = head_start.teacher_rows(list(each_taught)) if head.teachers else None
    x, fit = head_start.sample_features(pooled), None
    if head.start == "rotated":
        fit = head_start.start_rotated(encoder, head_start.every_view(pooled), head, settings.seed)
    elif not len(encoder.hidden):  # behind hidden layers the features mean nothing
        head_start.start_linear(encoder.output, x, head.start, generator(settings.seed, "start"))
    method = build_method(settings, encoder, images, x, fit)
    batches = FeatureBatches(images, pooled, 2 if head.contrastive else 1, device, taught)
    return method, batches, partial(embed_cached, encoder, pooled, batches.labels, settings.loop.monitor_images)


def choose_device(name: str) -> torch.device:
    """Return the device of that name if torch has it; of `auto`, the best there is."""
    if name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigInvalid(
            f"loop.device={name!r}: {reason}", fix="use auto, cpu, or a device that torch sees", field="loop.device"
        ) from error
