"""Draws the test images that activate eight dimensions of CL and eight of NCL most: docs/dimensions.png.

    python -m research.study.draw_dimensions --work WORK --root DIR    WORK: where the study kept its runs

Of the study quick, variants cl and ncl, unless --study and --variant say otherwise. The dimensions are drawn by
chance among those that are active on at least eight images (the study's seed 0, seed 0 of the draw), not chosen for
their looks. Prints how pure they are: the share of the most frequent class in each row.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from nonneg_core.arrays import Floats, Numbers
from nonneg_training import load_encoder
from nonneg_training.data import Arrays, open_data
from nonneg_training.loop.training_checkpoint import run_settings
from nonneg_training.measure.encoder_outputs import encode_images, runner
from research.study import Study
from research.study.encoder_task import portable
from research.study.plan import differing

ROWS = TILES = 8
GAP, HEAD = 24, 16
OUT = Path(__file__).parents[2] / "docs" / "dimensions.png"


def run_of(study: Study, variant: str) -> Path:
    """Return the checkpoint of the study's first seed."""
    wanted = next(run for run in study.grid() if run.variant == variant and run.seed == 0)
    for run in sorted(study.work.glob(f"{wanted.settings['method']}-0-*")):
        if not differing(wanted.settings, portable(run_settings(run)), {}):
            return run
    raise SystemExit(
        f"{study.work} holds no run of {variant}: python -m research.study run {study.name} --work {study.work}"
    )


def rows(z: Floats) -> Numbers:
    """Return the images with the largest entries of dimensions drawn by chance: (ROWS, TILES)."""
    able = np.flatnonzero((z > 0).sum(axis=0) >= TILES)
    drawn = np.sort(np.random.default_rng(0).choice(able, ROWS, replace=False))
    return np.argsort(-z[:, drawn], axis=0, kind="stable")[:TILES].T


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--study", default="quick")
    parser.add_argument("--variant", nargs=2, default=["cl", "ncl"])
    given = parser.parse_args()
    study = Study(given.study, root=given.root, work=given.work)
    images = open_data("cifar10:test", given.root)
    assert isinstance(images, Arrays)
    side = images.array.shape[1]
    sheet = Image.new("RGB", (2 * TILES * side + GAP, HEAD + ROWS * side), "white")
    pen, purity = ImageDraw.Draw(sheet), {}
    for block, variant in enumerate(given.variant):
        encoder = load_encoder(run_of(study, variant))
        seen = encode_images(runner(encoder), images, encoder.view, seconds=False)
        found = rows(seen.z)
        left = block * (TILES * side + GAP)
        pen.text((left, 2), f"{variant.partition('-')[0].upper()}: a row a dimension", fill="black")
        for y, row in enumerate(found):
            for x, place in enumerate(row):
                tile = Image.fromarray(images.array[seen.order[place]])
                sheet.paste(tile, (left + x * side, HEAD + y * side))
        purity[variant] = float(np.mean([np.bincount(seen.labels[row]).max() / TILES for row in found]))
    sheet.save(OUT, optimize=True)
    print(f"{OUT}: share of the most frequent class in a row, mean of {ROWS}")
    print(json.dumps(purity))


if __name__ == "__main__":
    main()
