"""The loop: batches of views -> encoder -> loss -> step, and a checkpoint now and then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from nonneg_client.errors import StorageFailed
from nonneg_training.build import build_encoder, resolve
from nonneg_training.checkpoint import (
    ENCODER,
    FILE_NAME,
    read_checkpoint,
    restore,
    restore_optimiser,
    write_checkpoint,
)
from nonneg_training.data import Images, open_data
from nonneg_training.encoder import Encoder
from nonneg_training.losses.infonce import infonce
from nonneg_training.metrics import Metrics
from nonneg_training.optimisers import optimiser
from nonneg_training.progress import Progress
from nonneg_training.schedule import rate
from nonneg_training.seeds import derive, generator, permutation
from nonneg_training.settings import FILE_NAME as CONFIG
from nonneg_training.settings import Settings, write_settings
from nonneg_training.views import Pipeline


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    run: Path
    steps: int
    loss: float
    images_per_second: float


def train(settings: Settings, run: Path, *, resume: bool = False, progress: bool | None = None) -> Outcome:
    """Train as `settings` says into the folder `run`; with `resume` go on from its checkpoint."""
    images = open_data(settings.data.source, settings.data.root, max_broken=settings.data.max_broken)
    settings = resolve(settings, images)
    if settings.loop.threads:
        torch.set_num_threads(settings.loop.threads)
    torch.manual_seed(derive(settings.seed, "weights"))
    encoder = build_encoder(settings)
    torch.nn.Module.to(encoder, memory_format=torch.channels_last)  # type: ignore[call-overload]
    _claim(run, settings, resume=resume)
    return Loop(settings, run, images, encoder).run(progress)


class Loop:
    """One run: what it holds, and its steps."""

    def __init__(self, settings: Settings, run: Path, images: Images, encoder: Encoder) -> None:
        self.settings, self.folder, self.images, self.encoder = settings, run, images, encoder
        self.optimiser = optimiser([encoder], settings.optimiser)
        self.pipeline = Pipeline(images, settings.views, encoder.view.size)
        self.per_epoch = len(images) // settings.loop.batch
        self.steps = self.per_epoch * settings.loop.epochs
        self.others: dict[str, nn.Module] = {}
        self.done = self._restore()
        self.metrics = Metrics(run, resumed_at=self.done)

    def run(self, progress: bool | None = None) -> Outcome:
        """All steps that are not done yet."""
        batch = self.settings.loop.batch
        loss, speed, before = 0.0, 0.0, time.perf_counter()
        with Progress(self.steps, self.done, shown=progress) as bar:
            while self.done < self.steps:
                loss = self.step(self.done)
                self.done += 1
                now = time.perf_counter()
                speed = batch / (now - before) if not speed else 0.9 * speed + 0.1 * batch / (now - before)
                before = now
                bar.show(self.done, loss, speed)
                self._report(loss, speed)
                if self._due():
                    self.save()
        return Outcome(self.folder, self.steps, loss, speed)

    def step(self, step: int) -> float:
        """Step number `step`, which depends on nothing but the weights and (seed, step)."""
        lr = rate(step, self.steps, self.settings.optimiser.lr, self.settings.optimiser.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        torch.manual_seed(derive(self.settings.seed, "step", step))
        self.encoder.train()
        z = self.encoder.embed(self.encoder.see(self._views(step)))  # (2 * batch, D)
        z1, z2 = z.chunk(2)
        loss = infonce(z1, z2, self.settings.loss.temperature)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return float(loss.detach())

    def save(self) -> None:
        """The checkpoint of now."""
        write_checkpoint(self.folder, self.done, self.encoder, self.others, self.optimiser)

    def _views(self, step: int) -> torch.Tensor:
        epoch, place = divmod(step, self.per_epoch)
        batch = self.settings.loop.batch
        order = permutation(len(self.images), self.settings.seed, "order", epoch)
        chosen = order[place * batch : (place + 1) * batch]
        return self.pipeline.draw(chosen.tolist(), generator(self.settings.seed, "views", step))

    def _restore(self) -> int:
        if not (self.folder / FILE_NAME).exists():
            return 0
        checkpoint = read_checkpoint(self.folder)
        restore(self.encoder, checkpoint.part(ENCODER), self.folder / FILE_NAME)
        restore_optimiser(self.optimiser, checkpoint)
        return checkpoint.step

    def _report(self, loss: float, speed: float) -> None:
        lr = self.optimiser.param_groups[0]["lr"]
        epoch = (self.done - 1) // self.per_epoch
        self.metrics.add(
            {"step": self.done, "epoch": epoch, "loss": loss, "lr": lr, "images_per_second": round(speed, 1)}
        )

    def _due(self) -> bool:
        every = self.settings.loop.save_every or self.per_epoch
        return self.done % every == 0 or self.done == self.steps


def _claim(run: Path, settings: Settings, *, resume: bool) -> None:
    """Make the run's folder ours: new, or the one to resume."""
    if resume:
        if not (run / CONFIG).exists():
            write_settings(run / CONFIG, settings)
        return
    if (run / CONFIG).exists() or (run / FILE_NAME).exists():
        raise StorageFailed(f"{run} holds a run already", fix="choose another --out, or pass --resume", value=str(run))
    write_settings(run / CONFIG, settings)
