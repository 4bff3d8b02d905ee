"""What parts images are made of, as NMF, PCA and NCL find them: their pictures, and what their codes are like."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from nonneg_core.arrays import Doubles
from nonneg_training.data import Images, open_data
from nonneg_training.setup.run_settings import validate
from nonneg_vectors.evaluation.structure_report import structure
from research.study.plan import Record
from research.study.task import Alone, Figures, TaskSettings


class PartsSettings(TaskSettings):
    """Which factorisation, of the digits."""

    method: Literal["pca", "nmf", "cl", "ncl"]
    parts: int = Field(default=32, ge=2, description="components, or dimensions")
    epochs: int = Field(default=20, ge=1, description="of cl and ncl")


class Factorised(Alone):
    """Codes of the test images and a picture for every dimension."""

    kind = PartsSettings
    known = frozenset({
        "picture.sparsity", "picture.negative", "code.sparsity", "code.consistency", "code.purity", "floor.purity",
        "floor.consistency",
    })  # fmt: skip

    def run(self, settings: Record, measure: Record, seed: int, work: Path, root: Path | None) -> Figures:
        codes, pictures = factorised(PartsSettings.model_validate(settings), seed, work)
        report = structure(codes, open_data("digits", split="test").labels)
        return {
            "picture.sparsity": hoyer(pictures),
            "picture.negative": float((pictures < -1e-9 * np.abs(pictures).max()).mean()),
            "code.sparsity": report.measured.sparsity,
            "code.consistency": report.measured.consistency,
            "code.purity": report.measured.purity,
            "floor.purity": report.rotated.purity,
            "floor.consistency": report.rotated.consistency,
        }


TASK = Factorised()


def factorised(settings: PartsSettings, seed: int, work: Path) -> tuple[Doubles, Doubles]:
    """Return the test images' codes, (n, parts), and what each part looks like, (parts, pixels).

    Of CL and NCL: the mean of the images, weighted by how much of the part they have, less the mean of all.
    """
    x, y = (_pixels(open_data("digits", split=split)) for split in ("train", "test"))
    if settings.method not in ("cl", "ncl"):
        return _factors(settings, x, y, seed)
    codes = _contrastive(settings, seed, work)
    return codes, np.maximum(codes, 0).T @ (y - y.mean(axis=0))


def _pixels(images: Images) -> Doubles:
    return np.stack([np.asarray(images.image(i))[..., 0].ravel() / 255 for i in range(len(images))])


def hoyer(rows: Doubles) -> float:
    """Return mean sparseness of rows: 1 when one entry is all, 0 when all are equal (Hoyer 2004)."""
    root = rows.shape[1] ** 0.5
    ratio = np.abs(rows).sum(axis=1) / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
    return float(((root - ratio) / (root - 1)).mean())


def _factors(settings: PartsSettings, x: Doubles, y: Doubles, seed: int) -> tuple[Doubles, Doubles]:
    from sklearn.decomposition import NMF, PCA

    if settings.method == "pca":
        pca = PCA(settings.parts, random_state=seed).fit(x)
        return pca.transform(y), pca.components_
    nmf = NMF(settings.parts, init="nndsvda", max_iter=5000, tol=1e-3, random_state=seed).fit(x)
    return nmf.transform(y), nmf.components_


def _contrastive(settings: PartsSettings, seed: int, work: Path) -> Doubles:
    from nonneg_training.loop.training_checkpoint import load_encoder
    from nonneg_training.measure.encoder_outputs import encode_images, runner
    from research.study.encoder_task import trained_run

    changes = {
        "method": settings.method,
        "seed": seed,
        "model": {"dimensions": settings.parts},
        "loop": {"epochs": settings.epochs},
        "views": {"crop": (0.5, 1.0), "flip": 0.0, "jitter": 0.4, "blur": 0.0},
    }
    encoder = load_encoder(trained_run(validate(changes, "the study"), work))
    test = open_data("digits", split="test")
    outputs = encode_images(runner(encoder), test, encoder.view, seconds=False)
    back = np.argsort(outputs.order)
    return outputs.z[back].astype(np.float64)
