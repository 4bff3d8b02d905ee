"""Draws what each part of the digits looks like to PCA, NMF, CL and NCL: research/results/parts/pictures.png.

    python -m research.study.draw_parts --work WORK    WORK: where the study kept its runs

Red is more, blue less than nothing (PCA, NMF) or than the mean image (CL, NCL). Prints how sparse the pictures are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from research.study.parts_task import PartsSettings, factorised, hoyer

COLUMNS, SCALE, GAP, HEAD = 8, 2, 12, 14
OUT = Path(__file__).parents[1] / "results" / "parts" / "pictures.png"


def coloured(row: np.ndarray, side: int) -> Image.Image:
    """Return one part, white where it is nothing."""
    strength = row.reshape(side, side) / max(float(np.abs(row).max()), 1e-12)
    fade = 1 - np.abs(strength)
    red, blue = np.where(strength > 0, 1, fade), np.where(strength < 0, 1, fade)
    pixels = np.rint(255 * np.stack([red, fade, blue], axis=-1)).astype(np.uint8)
    return Image.fromarray(pixels).resize((side * SCALE, side * SCALE), Image.Resampling.NEAREST)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    work, sparse = parser.parse_args().work, {}
    blocks = {}
    for method in ("pca", "nmf", "cl", "ncl"):
        _, pictures = factorised(PartsSettings.model_validate({"method": method}), 0, work)
        blocks[method], sparse[method] = pictures, round(hoyer(pictures), 4)
    side = int(blocks["pca"].shape[1] ** 0.5)
    step, rows = side * SCALE, len(blocks["pca"]) // COLUMNS
    width = COLUMNS * step
    sheet = Image.new("RGB", (4 * width + 3 * GAP, HEAD + rows * step), "white")
    for place, (method, pictures) in enumerate(blocks.items()):
        left = place * (width + GAP)
        ImageDraw.Draw(sheet).text((left, 0), method.upper(), fill="black")
        for i, row in enumerate(pictures):
            sheet.paste(coloured(row, side), (left + i % COLUMNS * step, HEAD + i // COLUMNS * step))
    sheet.save(OUT, optimize=True)
    print(f"{OUT}: sparseness of the pictures (Hoyer)")
    print(json.dumps(sparse))


if __name__ == "__main__":
    main()
