"""The picture of eight named dimensions in the README, of photos that may be passed on; NOTICE has their sources.

The photos are samples inside scikit-image's wheel and wallpapers of a Debian package, which apt fetches. Every photo
speaks for the named dimension that is strongest on it; the eight that are strongest of all are shown.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nonneg_core.shortening import unit
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.encoder import BundleEncoder
from nonneg_runtime.words.column_facts import known_names
from nonneg_runtime.words.names import Name

OUT = Path(__file__).parent.parent / "docs" / "names.jpg"
SAMPLES = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "rocket.jpg", "hubble_deep_field.jpg")
PACKAGE, FOLDER = "lomiri-wallpapers-16.04", "usr/share/backgrounds"
WALLPAPERS = (  # CC0 or CC BY 4.0, by the package's list of copyrights; the others of it are CC BY-SA
    "Picture_0B_by_freespace.jpg",
    "Picture_1A_by_freespace.jpg",
    "Wine_by_Jakkub_Mede.jpg",
    "aitzgorri_by_Aitzol_Berasategi.jpg",
    "friends_by_Aitzol_Berasategi.jpg",
    "life_by_Aitzol_Berasategi.jpg",
    "picosdeeuropa_by_Aitzol_Berasategi.jpg",
    "seeding_by_Clements_Engelhardt.jpg",
    "sunset_by_Aitzol_Berasategi.jpg",
)
SHOWN, ACROSS = 8, 4
SIDE, TEXT, GAP = 300, 104, 16  # pixels
LETTERS = 44  # a line of the evidence
INK, PALE = (28, 30, 34), (104, 108, 116)


@dataclass(frozen=True)
class Example:
    """A photo, the named dimension that is strongest on it, and how strong."""

    photo: Path
    name: Name
    strength: float
    frequency: float


def main() -> None:
    """Find the eight, draw them, and say which they are."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = strongest(samples() + wallpapers(Path(folder)))
        draw(chosen)
    for example in chosen:
        print(f"{example.name.dimension} {example.name.called}: {example.strength:.2f} on {example.photo.name}")


def samples() -> list[Path]:
    """Return the photos inside scikit-image's wheel."""
    spec = find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None
    return [Path(spec.origin).parent / "data" / name for name in SAMPLES]


def wallpapers(folder: Path) -> list[Path]:
    """Return the photos of the Debian package, unpacked into the folder."""
    subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=folder, check=True, capture_output=True)
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return [folder / FOLDER / name for name in WALLPAPERS]


def strongest(photos: list[Path]) -> list[Example]:
    """Return the named dimensions that are strongest on a photo each, no dimension twice."""
    bundle = open_bundle()
    names, frequency = known_names(bundle), bundle.manifest.columns.frequency
    named = [dimension for dimension, name in names.items() if name.source == "direction"]
    encoder = BundleEncoder(bundle)
    found = []
    for photo, vector in [(photo, encoder.submit(photo.read_bytes())) for photo in photos]:
        z = unit(vector.result())[named]
        best = named[int(np.argmax(z))]
        found.append(Example(photo, names[best], float(z.max()), frequency[best]))
    found.sort(key=lambda example: -example.strength)
    firsts = {example.name.dimension: example for example in reversed(found)}
    return [example for example in found if firsts[example.name.dimension] is example][:SHOWN]


def draw(examples: list[Example]) -> None:
    """Put the photos side by side, each above the name and its evidence."""
    rows = -(-len(examples) // ACROSS)
    size = (ACROSS * (SIDE + GAP) + GAP, rows * (SIDE + TEXT + GAP) + GAP)
    sheet = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(sheet)
    for i, example in enumerate(examples):
        left, top = GAP + i % ACROSS * (SIDE + GAP), GAP + i // ACROSS * (SIDE + TEXT + GAP)
        sheet.paste(square(example.photo), (left, top))
        lines = (
            (example.name.called, 20, INK),
            (f"dimension {example.name.dimension}, active on {example.frequency:.1%} of photos", 14, PALE),
            *((line, 14, PALE) for line in wrap(example.name.evidence, LETTERS)),
        )
        y = top + SIDE + 8
        for text, height, colour in lines:
            pen.text((left, y), text, colour, ImageFont.load_default(height))
            y += round(height * 1.35)
    sheet.save(OUT, quality=84, optimize=True)


def square(photo: Path) -> Image.Image:
    """Return the central square."""
    image = Image.open(photo).convert("RGB")
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    return image.resize((SIDE, SIDE), Image.Resampling.LANCZOS, (left, top, left + short, top + short))


if __name__ == "__main__":
    main()
