"""The loop: batches -> method -> gradient -> step; and now and then a report, a reading, a checkpoint."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from nonneg_core.process.long_runs import Interrupted, Interrupts
from nonneg_core.terminal.progress import ProgressBar
from nonneg_training.loop.batches import Batches
from nonneg_training.loop.events import Callback, CheckpointEvent, EpochEvent, Event, StepEvent
from nonneg_training.loop.optimiser import MixedPrecision, build_optimiser, scheduled_rate
from nonneg_training.loop.run_health import HealthChecks, MetricsFile, Snapshot, read_snapshot
from nonneg_training.loop.training_checkpoint import Checkpoint, restore_run, write_checkpoint
from nonneg_training.methods import Batch, Method
from nonneg_training.setup.batch_order import Prefetcher, Steps, derive, generator
from nonneg_training.setup.process_group import ProcessGroup, barrier
from nonneg_training.setup.run_settings import RunSettings

FetchedStep = tuple[Any, torch.Generator]


class Feed(Protocol):
    """What batches come from, by their numbers."""

    def take(self, i: int, /) -> Batch: ...


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    run: Path
    steps: int
    taken: int  # of these, by this process: fewer, where a run was resumed
    loss: float
    images_per_second: float
    reading: Snapshot | None
    broken: dict[str, str] = field(default_factory=dict)  # images that were skipped, and why


class Loop:
    """One run: what it holds, and its steps."""

    def __init__(
        self,
        settings: RunSettings,
        run: Path,
        method: Method,
        batches: Batches,
        look: Callable[[], tuple[Tensor, Tensor]],
        *,
        world: ProcessGroup,
        checkpoint: Checkpoint | None = None,
        tested: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Prepare a run; `tested` says that `look` sees test images, not those that are learnt from."""
        self.callbacks = callbacks
        loop = settings.loop
        self.settings, self.folder, self.method, self.batches, self.look = settings, run, method, batches, look
        self.world, self.tested = world, tested
        self.plan = Steps(len(batches), loop.batch, loop.accumulate, loop.epochs, settings.seed, world, loop.steps)
        self.optimiser = build_optimiser(method, settings.optimiser, method.pace)
        self.precision = MixedPrecision(loop.precision, next(method.parameters()).device)
        self.done = 0
        if checkpoint:
            self.done = restore_run(checkpoint, run, method, self.optimiser, self.precision)
        self.learner: Any = DistributedDataParallel(method) if world.size > 1 else method
        if loop.compile:
            self.learner = torch.compile(self.learner)
        self.gates = HealthChecks(settings.health, settings.model, method.collapsed(loop.batch))
        self.reading: Snapshot | None = None

    def run(self, progress: bool | None = None) -> RunOutcome:
        """Run all steps that are not done yet."""
        if self.world.first and self.plan.per_epoch == 1:
            sys.stderr.write(f"{self.plan.warning}\n")
        loss, before, clock = 0.0, self.done, Clock(self.settings.loop.batch * self.settings.loop.accumulate)
        metrics = MetricsFile(self.folder, self.method.parts, resumed_at=self.done) if self.world.first else None
        bar = ProgressBar(
            "training", self.plan.total, done=self.done, unit="steps",
            shown=progress if self.world.first else False, lines=True,
        )  # fmt: skip
        parts = self.plan.total * self.settings.loop.accumulate
        with bar, Prefetcher(self.fetch, self.finish, parts) as ahead, self._interrupts() as interrupts:
            try:
                while self.done < self.plan.total:
                    with interrupts.deferred():  # weights are whole between two steps
                        result = self.step(self.done, ahead)
                        self.done += 1
                        clock.tick()
                        if self.done % self.settings.loop.report_every == 0 or self._due():
                            loss = self._report(result, clock.images_per_second, metrics)
                            bar.move(self.done, text=f"loss {loss:.4f}, {clock.images_per_second:,.0f} images/s")
                        if self._due():
                            self.save()
                        if self.done % self.plan.per_epoch == 0 or self.done == self.plan.total:
                            epoch = EpochEvent(self.folder, self.done, self.epoch, self.reading, self.method.encoder)
                            self._tell(epoch)
            except Interrupted:
                if self.done > before:
                    self.save()
                raise
        taken = self.done - before
        return RunOutcome(self.folder, self.plan.total, taken, loss, clock.images_per_second, self.reading)

    def _interrupts(self) -> Interrupts:
        """Hold signals to end until a step is done; processes that train together end together, by their launcher."""
        return Interrupts() if self.world.size == 1 else Interrupts(())

    def step(self, step: int, ahead: Feed) -> dict[str, Tensor]:
        """Take step number `step`, which depends on nothing but the weights and (seed, step)."""
        lr = scheduled_rate(step, self.plan.total, self.settings.optimiser.lr, self.settings.optimiser.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = lr * group["pace"]
        torch.manual_seed(derive(self.settings.seed, "step", step, self.world.rank))
        self.method.train()
        self.method.advance(step / self.plan.total)
        self.optimiser.zero_grad()
        results = [self._learn(step, part, ahead) for part in range(self.plan.accumulate)]
        self.precision.step(self.optimiser)
        return {name: torch.stack([r[name].detach() for r in results]).mean() for name in results[0]}

    def fetch(self, number: int) -> FetchedStep:
        """Return what can be done ahead for batch `number` of the run."""
        g = generator(self.settings.seed, "views", number, self.world.rank)
        return self.batches.fetch(self.plan.place(number), g), g

    def finish(self, fetched: FetchedStep) -> Batch:
        """Return the batch itself."""
        return self.batches.finish(*fetched)

    def save(self) -> None:
        """Write the checkpoint of now."""
        if self.world.first:
            path = write_checkpoint(self.folder, self.done, self.method, self.optimiser, self.precision)
            self._tell(CheckpointEvent(self.folder, self.done, self.epoch, path))
        barrier()

    @property
    def epoch(self) -> int:
        """The epoch of the last step, from 0."""
        return (self.done - 1) // self.plan.per_epoch

    def _tell(self, event: Event) -> None:
        """Pass what happened to the callbacks, in the first process alone."""
        for callback in self.callbacks if self.world.first else ():
            callback(event)

    def _learn(self, step: int, part: int, ahead: Feed) -> dict[str, Tensor]:
        batch = ahead.take(step * self.plan.accumulate + part)
        last = part == self.plan.accumulate - 1
        # gradients are averaged over the ranks once a step
        alone = self.learner.no_sync() if self.world.size > 1 and not last else nullcontext()
        with alone:
            with self.precision.autocast():
                result: dict[str, Tensor] = self.learner(batch)
            self.precision.backward(result["loss"] / self.plan.accumulate)
        return result

    def _report(self, result: dict[str, Tensor], speed: float, metrics: MetricsFile | None) -> float:
        loss = float(result["loss"])
        row: dict[str, float | None] = {name: float(value) for name, value in result.items()}
        row |= {"step": self.done, "epoch": self.epoch}
        first = self.optimiser.param_groups[0]
        row |= {"lr": first["lr"] / first["pace"], "images_per_second": round(speed, 1)}
        self.gates.check_loss(self.done, loss)
        if metrics is None:
            return loss
        every = self.settings.loop.monitor_every or self.plan.per_epoch
        if self.done % every == 0 or self.done == self.plan.total:
            row |= self._look()
        metrics.add(row)
        values = {name: value for name, value in row.items() if value is not None and name not in ("step", "epoch")}
        self._tell(StepEvent(self.folder, self.done, self.epoch, values))
        if self.reading and self.done > self.plan.total * self.settings.optimiser.warmup:
            self.gates.check_reading(self.done, self.reading)
        return loss

    def _look(self) -> dict[str, float | None]:
        z, labels = self.look()
        self.reading = read_snapshot(z, labels, self.method.classify(z) if self.tested else None)
        return {name: value for name, value in asdict(self.reading).items() if name != "dimensions"}

    def _due(self) -> bool:
        every = self.settings.loop.save_every or self.plan.per_epoch
        return self.done % every == 0 or self.done == self.plan.total


class Clock:
    """Images a second, smoothed over the last steps."""

    def __init__(self, images: int) -> None:
        self._images, self._before, self.images_per_second = images, time.perf_counter(), 0.0

    def tick(self) -> None:
        now = time.perf_counter()
        speed = self._images / (now - self._before)
        # the first step warms caches and pools up: it should not weigh on the second
        self.images_per_second = 0.9 * self.images_per_second + 0.1 * speed if self.images_per_second else speed
        self._before = now
