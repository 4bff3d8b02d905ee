"""What a run looks like from outside: readings every N steps, metrics.csv, and the health gates that stop it."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from nonneg_core.errors import TrainingStopped
from nonneg_core.files.atomic import atomic_write, storage_error
from nonneg_training.data import Images
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.features.feature_cache import CachedFeatures
from nonneg_training.setup.run_settings import HealthSettings, ModelSettings


@dataclass(frozen=True)
class Snapshot:
    """One look at the encoder through the evaluation view."""

    knn: float | None  # share of images whose nearest other image is of their class; None without classes
    dimensions: int
    live: int  # dimensions that are not zero on at least one image
    nnz: float | None  # active dimensions a vector; None of signed vectors, of which all are
    zero_share: float  # vectors without any
    test_accuracy: float | None = None  # of a classifier, on test images

    def __str__(self) -> str:
        """Return the reading in a few words."""
        words = [] if self.test_accuracy is None else [f"test accuracy {self.test_accuracy:.1%}"]
        words += [] if self.knn is None else [f"1-NN {self.knn:.1%}"]
        if self.nnz is None:
            return ", ".join([*words, f"{self.dimensions} dimensions, signed"])
        return ", ".join([*words, f"{self.live} of {self.dimensions} dimensions live, {self.nnz:.0f} active a vector"])


def read_snapshot(z: Tensor, labels: Tensor, guessed: Tensor | None = None) -> Snapshot:
    """Return the reading of embeddings (n, D) with labels (n,); `guessed`: a classifier's answers, (n,)."""
    active = z != 0
    return Snapshot(
        knn=nearest_share(z, labels),
        dimensions=z.shape[1],
        live=int(active.any(dim=0).sum()),
        nnz=None if (z < 0).any() else float(active.sum(dim=1).float().mean()),
        zero_share=float((~active).all(dim=1).float().mean()),
        test_accuracy=None if guessed is None else float((guessed == labels).float().mean()),
    )


def nearest_share(z: Tensor, labels: Tensor) -> float | None:
    """Measure leave-one-out 1-NN accuracy by cosine, of images that share their class with some and not all others."""
    z = F.normalize(z.float(), dim=1)
    mask = labels.bincount()[labels] > 1  # (n,)
    if not mask.any() or (labels == labels[0]).all():
        return None
    similarity = (z @ z.T).fill_diagonal_(-2)
    return float((labels[similarity.argmax(dim=1)] == labels)[mask].float().mean())


@torch.inference_mode()
def embed(encoder: EncoderModule, images: Images, most: int, *, batch: int = 256) -> tuple[Tensor, Tensor]:
    """Return embeddings and labels of up to `most` images, spread evenly over the data, in evaluation mode."""
    chosen = torch.linspace(0, len(images) - 1, min(most, len(images))).long().tolist()
    device = encoder.output.weight.device
    was_training = encoder.training
    encoder.eval()
    parts = []
    for start in range(0, len(chosen), batch):
        pixels = torch.from_numpy(images.pixels(chosen[start : start + batch], encoder.view))
        parts.append(encoder(pixels.to(device)).float().cpu())
    encoder.train(was_training)
    return torch.cat(parts), torch.from_numpy(images.labels[chosen])


@torch.inference_mode()
def embed_cached(encoder: EncoderModule, features: CachedFeatures, labels: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the same of a head, from cached features: the backbone has seen these images already."""
    chosen = torch.linspace(0, len(labels) - 1, min(most, len(labels))).long()
    x = torch.from_numpy(features[0, chosen.numpy()]).to(encoder.output.weight.device)
    was_training = encoder.training
    encoder.eval()
    z = encoder.embed(x).float().cpu()
    encoder.train(was_training)
    return z, labels[chosen]


# metrics.csv: one row a report, appended as the run goes; a resumed run drops the rows it is about to repeat.

METRICS_FILE = "metrics.csv"
METRICS_COLUMNS = (
    "step",
    "epoch",
    "loss",
    "lr",
    "images_per_second",
    "knn",
    "live",
    "nnz",
    "zero_share",
    "test_accuracy",
)


class MetricsFile:
    """Appends rows to a run's metrics.csv."""

    def __init__(self, run: Path, parts: Sequence[str] = (), *, resumed_at: int = 0) -> None:
        self.path = run / METRICS_FILE
        self.columns = (*METRICS_COLUMNS, *parts)
        rows = [row for row in read_metrics(run) if int(row["step"]) <= resumed_at] if resumed_at else []
        with atomic_write(self.path) as path:
            self._begin(path, rows)

    def add(self, row: dict[str, float | None]) -> None:
        """Add one report; what it does not say stays empty."""
        try:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self.columns).writerow(row)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def _begin(self, path: Path, rows: list[dict[str, str]]) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


def read_metrics(run: Path) -> list[dict[str, str]]:
    """Return the rows of a run's metrics.csv; none without the file. A row cut short by a kill does not count."""
    path = run / METRICS_FILE
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["step"] and None not in row.values()]


# Health gates: stop a run that cannot come to anything, with the reason and a proposal.


class HealthChecks:
    """Watches losses and readings; what it holds is how long the loss has looked like collapse."""

    def __init__(self, settings: HealthSettings, model: ModelSettings, collapsed: float | None) -> None:
        self.settings, self.model, self.collapsed_loss = settings, model, collapsed
        self._flat = 0

    def check_loss(self, step: int, loss: float) -> None:
        """Raise when the loss is not a number, or has stayed where collapse puts it."""
        if not math.isfinite(loss):
            raise TrainingStopped(
                f"step {step}: the loss is {loss}",
                fix="lower optimiser.lr, raise loss.temperature, or train in fp32 (loop.precision)",
                field="loss",
            )
        if self.collapsed_loss is None or not self.settings.collapse_steps:
            return
        near = abs(loss - self.collapsed_loss) < 1e-3 * max(1.0, abs(self.collapsed_loss))
        self._flat = self._flat + 1 if near else 0
        if self._flat >= self.settings.collapse_steps:
            raise TrainingStopped(
                f"step {step}: collapse - the loss has been {self.collapsed_loss:.4f} for {self._flat} steps, "
                "which is what equal vectors for all images cost",
                fix=self._proposal("lengthen optimiser.warmup"),
                field="loss",
                value=loss,
            )

    def check_reading(self, step: int, reading: Snapshot) -> None:
        """Raise when too few dimensions live, or too many images have none."""
        dead = 1 - reading.live / reading.dimensions
        if reading.zero_share > self.settings.zero_share:
            raise TrainingStopped(
                f"step {step}: {reading.zero_share:.0%} of the vectors are all zero",
                fix=self._proposal("raise health.zero_share"),
                field="health.zero_share",
                value=reading.zero_share,
                limit=self.settings.zero_share,
            )
        if dead > self.settings.dead_share:
            raise TrainingStopped(
                f"step {step}: {reading.dimensions - reading.live} of {reading.dimensions} dimensions are dead",
                fix=self._proposal("raise health.dead_share"),
                field="health.dead_share",
                value=round(dead, 4),
                limit=self.settings.dead_share,
            )

    def _proposal(self, last: str) -> str:
        """Return what keeps dimensions alive and has not been tried in this run."""
        norm = [] if self.model.batch_norm else ["set model.batch_norm = true"]
        activation = ["use model.activation = rep_relu"] if self.model.activation == "relu" else []
        return ", ".join([*norm, *activation, "lower optimiser.lr"]) + f", or {last}"
