"""A finite world of views, in which everything can be computed: what spectral CL and NCL find there.

The world: n views, each drawn by latent classes with its posterior p(c|x); two views are a pair when one latent draw
gave both. The spectral loss over the whole world is |A - F F^T|^2 up to a constant, A being the normalised
co-occurrence (arXiv 2403.12459, section 4), so that its minimum can be held against singular vectors and NMF.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from nonneg_core.arrays import Doubles
from nonneg_training.setup.batch_order import generator
from nonneg_vectors.evaluation.structure import rotation
from research.study.plan import Record
from research.study.task import Alone, Figures, TaskSettings


class World(TaskSettings):
    """How the world is drawn, and how long its factors are sought."""

    views: int = Field(default=60, ge=6, description="in the world")
    classes: int = Field(default=6, ge=2, description="latent classes, and the width of the features")
    overlap: float = Field(default=0.0, ge=0, lt=1, description="largest share of a view that is another class's")
    steps: int = Field(default=2000, ge=10, description="of gradient descent")
    restarts: int = Field(default=4, ge=1, description="the best of so many starts")


@dataclass(frozen=True)
class Drawn:
    """A world: how much of each class an element is, and how often two elements come together."""

    posterior: Doubles  # (n, C): p(c | x)
    prior: Doubles  # (C,)
    joint: Doubles  # (n, n): how often i and j are a pair

    @property
    def marginal(self) -> Doubles:
        return np.asarray(self.joint.sum(axis=1))

    @property
    def normalised(self) -> Doubles:
        """A: the co-occurrence over the square root of both marginals."""
        root = np.sqrt(self.marginal)
        return np.asarray(self.joint / np.outer(root, root))


class Theory(Alone):
    """What gradient descent on the spectral loss finds, with and without non-negativity."""

    kind = World
    known = frozenset(
        [f"residual.{name}" for name in ("svd", "nmf", "ncl", "cl")]
        + [f"posterior.{name}" for name in ("nmf", "ncl", "cl")]
        + ["rotated.ncl", "rotated.cl", "bound.alpha", "bound.bound", "bound.error"]
    )

    def run(self, settings: Record, measure: Record, seed: int, work: Path, root: Path | None) -> Figures:
        world = World.model_validate(settings)
        drawn = draw(world, seed)
        minima = {
            "ncl": minimum(drawn, world, seed, non_negative=True),
            "cl": minimum(drawn, world, seed, non_negative=False),
        }
        return factors(drawn, minima, seed) | bound(drawn, minima["ncl"])


TASK = Theory()


def draw(world: World, seed: int) -> Drawn:
    """Return classes of unequal size; each view belongs to one class, and up to `overlap` of it to another one."""
    rng = np.random.default_rng((seed, world.classes))
    own = np.arange(world.views) % world.classes
    other = (own + rng.integers(1, world.classes, world.views)) % world.classes
    part = world.overlap * rng.random(world.views)
    part[: world.classes] = 0  # of each class one view is nothing else: without any the factors are not unique
    weight = rng.uniform(0.5, 1.5, world.views)
    weight /= weight.sum()
    rows = np.arange(world.views)
    posterior = np.zeros((world.views, world.classes))
    posterior[rows, own] = 1 - part
    posterior[rows, other] += part
    prior = weight @ posterior
    given = posterior * weight[:, None] / prior  # p(x | c)
    return Drawn(posterior, prior, (given * prior) @ given.T)


def population(f: Tensor, joint: Tensor) -> Tensor:
    """Return the spectral loss over the whole world."""
    marginal, gram = joint.sum(dim=1), f @ f.T
    return -2 * (joint * gram).sum() + (torch.outer(marginal, marginal) * gram.square()).sum()


def minimum(drawn: Drawn, world: World, seed: int, *, non_negative: bool) -> Doubles:
    """Return the best features (n, C) of several starts."""
    joint = torch.from_numpy(drawn.joint)
    best, least = np.zeros((0, 0)), float("inf")
    for start in range(world.restarts):
        g = generator(seed, "theory", start)
        raw = torch.rand(len(joint), world.classes, generator=g, dtype=torch.float64)
        if not non_negative:
            raw = 2 * raw - 1
        raw.requires_grad_()
        adam = torch.optim.Adam([raw], lr=0.05)
        for step in range(world.steps):
            adam.param_groups[0]["lr"] = 0.05 * (1 - step / world.steps)
            f = raw.abs() if non_negative else raw
            loss = population(f, joint)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        if float(loss.detach()) < least:
            best, least = f.detach().numpy(), float(loss.detach())
    return best


def factors(drawn: Drawn, minima: dict[str, Doubles], seed: int) -> Figures:
    """Return residuals of each factorisation of A, and how far each one's columns are from the classes."""
    from sklearn.decomposition import NMF

    a, root, width = drawn.normalised, np.sqrt(drawn.marginal)[:, None], len(drawn.prior)
    values, vectors = np.linalg.eigh(a)
    best = vectors[:, -width:] * np.sqrt(np.maximum(values[-width:], 0))
    solver = NMF(width, init="nndsvda", max_iter=5000, tol=1e-8, random_state=seed)
    left = solver.fit_transform(a)
    figures: Figures = {
        "residual.svd": _relative(a, best @ best.T),
        "residual.nmf": _relative(a, left @ solver.components_),
    }
    for name, f in minima.items():
        figures[f"residual.{name}"] = _relative(a, root * f @ (root * f).T)
        figures[f"posterior.{name}"] = likeness(f, drawn.posterior)
    figures["posterior.nmf"] = likeness(left / root, drawn.posterior)
    joint, turn = torch.from_numpy(drawn.joint), rotation(width, seed).astype(np.float64)
    for name, f in minima.items():
        turned = f @ turn if name == "cl" else np.maximum(f @ turn, 0)
        losses = [float(population(torch.from_numpy(x), joint)) for x in (f, turned)]
        figures[f"rotated.{name}"] = losses[1] - losses[0]
    return figures


def likeness(f: Doubles, posterior: Doubles) -> float:
    """Average the cosines of classes with columns, each with one of its own, matched as well as they can be."""
    from scipy.optimize import linear_sum_assignment

    unit = [x / np.maximum(np.linalg.norm(x, axis=0), 1e-12) for x in (posterior, f)]
    cosines = unit[0].T @ unit[1]  # (C, C)
    rows, columns = linear_sum_assignment(-cosines)
    return float(cosines[rows, columns].mean())


def bound(drawn: Drawn, f: Doubles) -> Figures:
    """Return how often the best linear classifier on f is wrong, and how often it can be at most: 2 alpha / lambda.

    alpha: how often a pair's two views have different labels; lambda: 1 less the (C + 1)th eigenvalue of A. The part of
    the labels that the leading C eigenvectors miss weighs at most alpha / lambda (Courant-Fischer); an image whose
    regression points to another class misses at least a half.
    """
    labels, weight = drawn.posterior.argmax(axis=1), drawn.marginal
    classes = len(drawn.prior)
    one_hot, root = np.eye(classes)[labels], np.sqrt(weight)[:, None]
    alpha = float(drawn.joint[labels[:, None] != labels[None, :]].sum())
    gap = 1 - float(np.linalg.eigvalsh(drawn.normalised)[-classes - 1])
    fitted = f @ np.linalg.lstsq(root * f, root * one_hot, rcond=None)[0]
    wrong = float(weight[fitted.argmax(axis=1) != labels].sum())
    return {"bound.alpha": alpha, "bound.bound": min(1.0, 2 * alpha / gap), "bound.error": wrong}


def _relative(a: Doubles, b: Doubles) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))
