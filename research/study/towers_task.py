"""Images and captions of digits in two towers: how well each finds the other, and what their dimensions share."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from nonneg_core.arrays import Floats, Numbers
from nonneg_core.shortening import unit
from nonneg_training.data import Captions, open_data
from nonneg_training.encoder.text_tower import tokens
from nonneg_training.loop.training_checkpoint import load_encoder, load_text, run_settings
from nonneg_training.measure.encoder_outputs import encode_images, runner
from nonneg_training.setup.run_settings import validate
from nonneg_vectors.evaluation.structure import sparsity
from research.study.encoder_task import trained_run
from research.study.plan import Record
from research.study.task import Alone, Figures, TaskSettings

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEMPLATES = ("a {} {}", "the digit {1} written in {0} strokes", "{0} {1}", "this is a {} {}")
STROKES = ("thin", "bold")
TOP = 5  # images and captions with a dimension's largest entries


class Towers(TaskSettings):
    """What differs between runs."""

    activation: Literal["identity", "relu", "rep_relu"]
    batch_norm: bool = True
    dimensions: int = Field(default=64, ge=2)
    epochs: int = Field(default=20, ge=1)
    max_scale: float = Field(default=20.0, gt=1, description="cap of the learnt 1 / temperature")


class TwoTowers(Alone):
    """Trains both towers on the digits with written captions."""

    kind = Towers
    known = frozenset({
        "recall.image_to_text", "recall.text_to_image", "image.sparsity", "text.sparsity", "across.same_digit",
        "across.chance",
    })  # fmt: skip

    def run(self, settings: Record, measure: Record, seed: int, work: Path, root: Path | None) -> Figures:
        setup = Towers.model_validate(settings)
        run = trained_run(validate(_settings(setup, seed, captions(work, "train")), "the study"), work)
        image, text, of_images, of_texts = embedded(run, captions(work, "test"))
        shuffled = np.random.default_rng(seed).permutation(text.shape[1])
        scores = unit(image) @ unit(text).T  # (images, captions)
        return {
            "recall.image_to_text": float((of_texts[scores.argmax(axis=1)] == of_images).mean()),
            "recall.text_to_image": float((of_images[scores.argmax(axis=0)] == of_texts).mean()),
            "image.sparsity": sparsity(image),
            "text.sparsity": sparsity(text),
            "across.same_digit": agreement(image, text, of_images // 2, of_texts // 2),
            "across.chance": agreement(image, text[:, shuffled], of_images // 2, of_texts // 2),
        }


TASK = TwoTowers()


def captions(work: Path, split: str) -> Path:
    """Return a CSV of the digits' images and captions, written once: which digit, in thin or bold strokes."""
    folder = work / "digits-with-captions" / split
    path = folder / "captions.csv"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    images, rng = open_data("digits", split=split), np.random.default_rng(0)
    ink = np.array([np.asarray(images.image(i), dtype=np.float64).mean() for i in range(len(images))])
    rows = []
    for i, digit in enumerate(images.labels.tolist()):
        images.image(i).save(folder / f"{i}.png")
        stroke = STROKES[int(ink[i] > MEDIAN_INK)]
        rows.append((f"{i}.png", TEMPLATES[int(rng.integers(len(TEMPLATES)))].format(stroke, WORDS[digit])))
    with path.with_suffix(".part").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "caption"), *rows])
    path.with_suffix(".part").rename(path)
    return path


MEDIAN_INK = 77.0  # mean grey of the digits, of 255: half of them are darker


def meaning(caption: str) -> int:
    """Return digit and stroke of a caption as one number."""
    digit = next(i for i, word in enumerate(WORDS) if word in caption.split())
    return 2 * digit + int("bold" in caption)


def embedded(run: Path, path: Path) -> tuple[Floats, Floats, Numbers, Numbers]:
    """Return both towers' vectors of the test images and of their different captions, and what each one means."""
    length, encoder, tower = run_settings(run).text.length, load_encoder(run), load_text(run)
    images = Captions(path)
    outputs = encode_images(runner(encoder), images, encoder.view, seconds=False)
    texts = sorted(set(images.captions))
    with torch.inference_mode():
        text = tower(tokens(texts, length)).numpy()
    of_images = np.array([meaning(images.captions[i]) for i in outputs.order])
    return outputs.z, text, of_images, np.array([meaning(caption) for caption in texts])


def agreement(image: Floats, text: Floats, of_images: NDArray[Any], of_texts: NDArray[Any]) -> float:
    """Return the share of dimensions whose largest entries are of the same digit in both towers."""
    sides = [_majority(image, of_images), _majority(text, of_texts)]
    live = np.any(image > 0, axis=0) & np.any(text > 0, axis=0)
    return float((sides[0] == sides[1])[live].mean()) if live.any() else 0.0


def _majority(z: Floats, classes: NDArray[Any]) -> NDArray[Any]:
    largest = np.argsort(-z, axis=0, kind="stable")[:TOP]  # (TOP, D)
    return np.array([np.bincount(classes[column]).argmax() for column in largest.T])


def _settings(setup: Towers, seed: int, path: Path) -> Record:
    return {
        "method": "two-tower",
        "seed": seed,
        "data": {"source": str(path)},
        "views": {"crop": (0.7, 1.0), "flip": 0.0, "jitter": 0.0, "grey": 0.0, "blur": 0.0},
        "model": {
            "activation": setup.activation,
            "batch_norm": setup.batch_norm,
            "dimensions": setup.dimensions,
            "hidden": (128,),
        },
        "text": {"width": 64, "layers": 2, "length": 48, "max_scale": setup.max_scale},
        "loop": {"epochs": setup.epochs, "batch": 128},
    }
